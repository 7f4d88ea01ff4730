#include "aggregation.h"

#include <algorithm>
#include <limits>

namespace netfold
{

void
Aggregation::Start(std::uint32_t tag, Exchange& exchange)
{
    m_tag = tag;
    m_exchange = &exchange;
    const std::uint32_t slots = exchange.Slots();
    const std::size_t cells = static_cast<std::size_t>(slots) * exchange.Chunks();

    m_home.resize(slots);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
    {
        m_home[slot] = LeafOf(exchange.Owner(slot));
    }
    m_pending.resize(m_config.workers);
    for (std::uint32_t worker = 0; worker < m_config.workers; ++worker)
    {
        m_pending[worker] = exchange.OwnSlots(worker).size() * exchange.Chunks();
    }
    m_done.assign((cells + 63) / 64, 0);
    m_raw.clear();
    m_rawCount.clear();
    m_rawSums.clear();

    m_leaves.resize(m_config.leaves);
    for (auto& leaf : m_leaves)
    {
        leaf.remaining.resize(cells);
        leaf.sums.assign(m_config.value_mode ? cells * m_config.values_per_packet : 0, 0);
    }
    if (m_config.first_come)
    {
        StartFirstCome();
    }
    else
    {
        StartReserved();
    }
}

void
Aggregation::StartReserved()
{
    const std::uint32_t slots = m_exchange->Slots();
    std::vector<std::uint32_t> count(m_config.leaves);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
    {
        const std::uint16_t home = m_home[slot];
        if (m_config.multicast_home || m_config.leaves == 1)
        {
            m_leaves[home].remaining[slot] = m_exchange->Degree(slot);
            continue;
        }
        std::fill(count.begin(), count.end(), 0);
        for (const auto neighbour : m_exchange->Neighbours(slot))
        {
            ++count[m_home[neighbour]];
        }
        std::uint32_t partials = 0; // one from each other rack that contributes
        for (std::uint32_t leaf = 0; leaf < m_config.leaves; ++leaf)
        {
            m_leaves[leaf].remaining[slot] = count[leaf];
            partials += leaf != home && count[leaf] > 0;
        }
        m_leaves[home].remaining[slot] += partials;
    }
    for (auto& leaf : m_leaves)
    {
        for (std::uint32_t chunk = 1; chunk < m_exchange->Chunks(); ++chunk)
        {
            std::copy_n(leaf.remaining.begin(), slots, leaf.remaining.begin() + static_cast<std::size_t>(chunk) * slots);
        }
    }
}

void
Aggregation::StartFirstCome()
{
    m_exchange->IndexEntries();
    for (auto& leaf : m_leaves)
    {
        leaf.state.assign(leaf.remaining.size(), SlotState::Free);
        leaf.freeSlots = m_config.aggregators ? m_config.aggregators : std::numeric_limits<std::uint64_t>::max();
    }
    if (!m_config.presum)
    {
        return;
    }
    const std::uint32_t slots = m_exchange->Slots();
    m_rackWorkers.assign(static_cast<std::size_t>(slots) * m_config.leaves, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
    {
        for (auto entry = m_exchange->EntryBegin(slot); entry < m_exchange->EntryEnd(slot); ++entry)
        {
            ++m_rackWorkers[static_cast<std::size_t>(LeafOf(m_exchange->EntryWorker(entry))) * slots + slot];
        }
    }
}

bool
Aggregation::MarkDone(std::uint32_t slot, std::uint32_t chunk)
{
    const std::size_t index = Index(slot, chunk);
    const std::uint64_t bit = 1ull << (index & 63);
    if (m_done[index >> 6] & bit)
    {
        return false;
    }
    m_done[index >> 6] |= bit;
    --m_pending[m_exchange->Owner(slot)];
    return true;
}

void
Aggregation::PrepareRaw()
{
    if (!m_raw.empty())
    {
        return;
    }
    m_exchange->IndexEntries();
    const std::size_t cells = static_cast<std::size_t>(m_exchange->Slots()) * m_exchange->Chunks();
    m_raw.assign((static_cast<std::size_t>(m_exchange->Entries()) * m_exchange->Chunks() + 63) / 64, 0);
    m_rawCount.assign(cells, 0);
    m_rawSums.assign(m_config.value_mode ? cells * m_config.values_per_packet : 0, 0);
}

bool
Aggregation::MarkRaw(std::uint32_t entry, std::uint32_t chunk)
{
    const std::size_t index = static_cast<std::size_t>(chunk) * m_exchange->Entries() + entry;
    const std::uint64_t bit = 1ull << (index & 63);
    if (m_raw[index >> 6] & bit)
    {
        return false;
    }
    m_raw[index >> 6] |= bit;
    return true;
}

bool
Aggregation::AddRaw(std::uint32_t slot, std::uint32_t chunk, std::uint32_t contributions)
{
    std::uint32_t& count = m_rawCount[Index(slot, chunk)];
    count += contributions;
    return count == Expected(slot);
}

} // namespace netfold
