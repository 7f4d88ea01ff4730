// The bytes of frames under way, where a run carries them: blocks of two sizes, used again and again, that stay where they
// are. An aggregation packet takes a small one.
#ifndef NETFOLD_BYTE_POOL_H
#define NETFOLD_BYTE_POOL_H

#include "units.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace netfold
{

class BytePool
{
    static constexpr std::size_t kSmall = 192;
    static constexpr std::size_t kLine = 64; // of a cache

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
        for (std::size_t behind = 0; behind < kSmall; behind += kLine)
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
    // Blocks come by large pages: those under way outgrow what small pages' tables keep at hand.
    static constexpr std::size_t kSlabBytes = std::size_t{1} << 21;

    struct Free
    {
        void operator()(std::uint8_t* slab) const
        {
            std::free(slab);
        }
    };

    struct Class
    {
        explicit Class(std::size_t size_)
            : size((size_ + kLine - 1) / kLine * kLine)
        {
            while (size << (shift + 1) <= kSlabBytes)
            {
                ++shift;
            }
        }

        std::uint32_t Take()
        {
            if (free.empty())
            {
                Grow();
            }
            const std::uint32_t id = free.back();
            free.pop_back();
            return id;
        }

        void Grow()
        {
            const auto first = static_cast<std::uint32_t>(slabs.size()) << shift;
            const std::size_t bytes = (size + kSlabBytes - 1) / kSlabBytes * kSlabBytes;
            slabs.emplace_back(static_cast<std::uint8_t*>(std::aligned_alloc(kSlabBytes, bytes)));
            if (!slabs.back())
            {
                throw std::bad_alloc();
            }
            madvise(slabs.back().get(), bytes, MADV_HUGEPAGE);
            for (std::uint32_t i = 1u << shift; i-- > 0;)
            {
                free.push_back(first + i);
            }
        }

        std::uint8_t* At(std::uint32_t id)
        {
            return slabs[id >> shift].get() + (id & ((1u << shift) - 1)) * size;
        }

        std::size_t Live() const
        {
            return (slabs.size() << shift) - free.size();
        }

        std::size_t size; // of a block
        std::uint32_t shift{0}; // 2^shift blocks a slab
        std::vector<std::unique_ptr<std::uint8_t, Free>> slabs;
        std::vector<std::uint32_t> free;
    };

    Class m_classes[2];
};

} // namespace netfold

#endif
