// Side storage of frames: payload values (value mode) and the lists that pull requests carry.
#ifndef NETFOLD_POOLS_H
#define NETFOLD_POOLS_H

#include "units.h"

#include <cassert>
#include <cstring>
#include <vector>

namespace netfold
{

// Fixed-size blocks of int32 values with reference counts: a multicast copy shares its payload.
class ValuePool
{
  public:
    explicit ValuePool(std::uint32_t stride)
        : m_stride(stride)
    {
    }

    std::uint32_t Allocate() // zeroed, one reference
    {
        std::uint32_t id;
        if (m_free.empty())
        {
            id = static_cast<std::uint32_t>(m_references.size());
            m_references.push_back(0);
            m_values.resize(m_values.size() + m_stride);
        }
        else
        {
            id = m_free.back();
            m_free.pop_back();
        }
        m_references[id] = 1;
        std::memset(At(id), 0, m_stride * sizeof(std::int32_t));
        return id;
    }

    std::uint32_t Stride() const
    {
        return m_stride;
    }

    std::int32_t* At(std::uint32_t id) // valid until the next Allocate()
    {
        return m_values.data() + static_cast<std::size_t>(id) * m_stride;
    }

    void Retain(std::uint32_t id)
    {
        if (id != kNone)
        {
            ++m_references[id];
        }
    }

    void Release(std::uint32_t id)
    {
        if (id != kNone && --m_references[id] == 0)
        {
            m_free.push_back(id);
        }
    }

    std::size_t Live() const
    {
        return m_references.size() - m_free.size();
    }

  private:
    std::uint32_t m_stride;
    std::vector<std::int32_t> m_values;
    std::vector<std::uint32_t> m_references;
    std::vector<std::uint32_t> m_free;
};

// One missing chunk that an owner asks for: an entry of the exchange and the chunk.
struct PullItem
{
    std::uint32_t entry;
    std::uint32_t chunk;
};

class PullPool
{
  public:
    std::uint32_t Add(std::vector<PullItem> items)
    {
        if (m_free.empty())
        {
            m_lists.push_back(std::move(items));
            return static_cast<std::uint32_t>(m_lists.size() - 1);
        }
        const std::uint32_t id = m_free.back();
        m_free.pop_back();
        m_lists[id] = std::move(items);
        return id;
    }

    const std::vector<PullItem>& At(std::uint32_t id) const
    {
        return m_lists[id];
    }

    void Release(std::uint32_t id)
    {
        m_lists[id] = {};
        m_free.push_back(id);
    }

  private:
    std::vector<std::vector<PullItem>> m_lists;
    std::vector<std::uint32_t> m_free;
};

} // namespace netfold

#endif
