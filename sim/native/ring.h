// A growing FIFO in one power-of-two array: no allocation once it has reached its working size.
#ifndef NETFOLD_RING_H
#define NETFOLD_RING_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace netfold
{

template <typename T>
class Ring
{
  public:
    bool Empty() const
    {
        return m_head == m_tail;
    }

    std::size_t Size() const
    {
        return m_tail - m_head;
    }

    T& Front()
    {
        return m_items[m_head & m_mask];
    }

    T& Back()
    {
        return m_items[(m_tail - 1) & m_mask];
    }

    // Start loading the item `ahead` places behind the front: deep queues outgrow the caches. Inlined, as g++ takes a
    // function that does nothing but prefetch for one that does nothing.
    [[gnu::always_inline]] void Prefetch(std::size_t ahead) const
    {
        __builtin_prefetch(&m_items[(m_head + ahead) & m_mask]);
    }

    T& operator[](std::size_t position) // from the front
    {
        return m_items[(m_head + position) & m_mask];
    }

    void Push(const T& item)
    {
        Next() = item;
        Push();
    }

    // The place behind the last item; Push() makes what was written there one.
    T& Next()
    {
        if (Size() == m_items.size())
        {
            Grow();
        }
        return m_items[m_tail & m_mask];
    }

    void Push()
    {
        ++m_tail;
        __builtin_prefetch(&m_items[(m_tail + 1) & m_mask], 1);
    }

    T Pop()
    {
        return m_items[m_head++ & m_mask];
    }

    std::size_t CapacityBytes() const
    {
        return m_items.size() * sizeof(T);
    }

  private:
    void Grow()
    {
        const std::size_t size = Size();
        std::vector<T> larger(m_items.empty() ? 4 : m_items.size() * 2);
        for (std::size_t i = 0; i < size; ++i)
        {
            larger[i] = (*this)[i];
        }
        m_items.swap(larger);
        m_mask = m_items.size() - 1;
        m_head = 0;
        m_tail = size;
    }

    std::vector<T> m_items;
    std::size_t m_mask{0};
    std::size_t m_head{0};
    std::size_t m_tail{0};
};

} // namespace netfold

#endif
