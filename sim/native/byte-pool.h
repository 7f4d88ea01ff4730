// The bytes of frames under way, where a run carries them: blocks of two sizes, used again and again, that stay where they
// are. An aggregation packet takes a small one.
#ifndef NETFOLD_BYTE_POOL_H
#define NETFOLD_BYTE_POOL_H

#include "units.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace netfold
{

class BytePool
{
    static constexpr std::size_t kSmall = 192;

    struct alignas(64) Line
    {
        std::uint8_t bytes[64];
    };

  public:
    explicit BytePool(std::uint32_t largest)
        : m_classes{Class(kSmall), Class(largest)}
    {
    }

    std::uint32_t Allocate(std::size_t bytes)
    {
        const std::uint32_t large = bytes > kSmall;
        return m_classes[large].Take() << 1 | large;
    }

    std::uint8_t* At(std::uint32_t id)
    {
        return m_classes[id & 1].At(id >> 1);
    }

    // The bytes are wanted soon: those under way outgrow the caches. Inlined, as g++ takes a function that does nothing but
    // prefetch for one that does nothing.
    [[gnu::always_inline]] void Prefetch(std::uint32_t id)
    {
        const std::uint8_t* at = At(id);
        for (std::size_t behind = 0; behind < kSmall; behind += sizeof(Line))
        {
            __builtin_prefetch(at + behind);
        }
    }

    void Release(std::uint32_t id)
    {
        m_classes[id & 1].free.push_back(id >> 1);
    }

    std::size_t Live() const
    {
        return m_classes[0].Live() + m_classes[1].Live();
    }

    std::size_t Largest() const
    {
        return m_classes[1].size;
    }

  private:
    static constexpr std::uint32_t kPerSlab = 256;

    struct Class
    {
        explicit Class(std::size_t size_)
            : size((size_ + sizeof(Line) - 1) / sizeof(Line) * sizeof(Line))
        {
        }

        std::uint32_t Take()
        {
            if (free.empty())
            {
                const auto first = static_cast<std::uint32_t>(slabs.size()) * kPerSlab;
                slabs.push_back(std::make_unique<Line[]>(size / sizeof(Line) * kPerSlab));
                for (std::uint32_t i = kPerSlab; i-- > 0;)
                {
                    free.push_back(first + i);
                }
            }
            const std::uint32_t id = free.back();
            free.pop_back();
            return id;
        }

        std::uint8_t* At(std::uint32_t id)
        {
            return slabs[id / kPerSlab][(id % kPerSlab) * (size / sizeof(Line))].bytes;
        }

        std::size_t Live() const
        {
            return slabs.size() * kPerSlab - free.size();
        }

        std::size_t size;
        std::vector<std::unique_ptr<Line[]>> slabs;
        std::vector<std::uint32_t> free;
    };

    Class m_classes[2];
};

} // namespace netfold

#endif
