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
        m_home[slot] = static_cast<std::uint16_t>(LeafOf(exchange.Owner(slot)));
    }
    m_pending.assign(m_config.workers, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
    {
        // A slot that nobody contributes to, only its vertex to others, gets no result.
        m_pending[exchange.Owner(slot)] += exchange.Degree(slot) > 0 ? exchange.Chunks() : 0;
    }
    m_done.Reset(cells);
    m_raw.Reset(0);
    m_rawRacks.Reset(0);
    m_rackContributions.clear();

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
    CountRackContributions();
    m_rawRacks.Reset(m_config.presum || m_config.multicast_home ? 0 : m_config.leaves * Cells());
    for (auto& leaf : m_leaves)
    {
        leaf.state.assign(leaf.remaining.size(), SlotState::Free);
        leaf.freeSlots = m_config.aggregators ? m_config.aggregators : std::numeric_limits<std::uint64_t>::max();
    }
}

void
Aggregation::CountRackContributions()
{
    if (!m_rackContributions.empty())
    {
        return;
    }
    m_exchange->IndexEntries();
    const std::uint32_t slots = m_exchange->Slots();
    m_rackContributions.assign(static_cast<std::size_t>(slots) * m_config.leaves, 0);
    m_racks.assign(slots, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
    {
        for (auto entry = m_exchange->EntryBegin(slot); entry < m_exchange->EntryEnd(slot); ++entry)
        {
            std::uint32_t& count =
                m_rackContributions[static_cast<std::size_t>(LeafOf(m_exchange->EntryWorker(entry))) * slots + slot];
            m_racks[slot] = static_cast<std::uint16_t>(m_racks[slot] + (count == 0));
            count += m_config.presum ? 1 : static_cast<std::uint32_t>(m_exchange->EntryNeighbours(entry).size());
        }
    }
}

bool
Aggregation::MarkDone(std::uint32_t slot, std::uint32_t chunk)
{
    if (!m_done.Set(Index(slot, chunk)))
    {
        return false;
    }
    --m_pending[m_exchange->Owner(slot)];
    return true;
}

void
Aggregation::PrepareRaw()
{
    if (!m_raw.Empty())
    {
        return;
    }
    CountRackContributions();
    const std::size_t cells = Cells();
    m_raw.Reset(static_cast<std::size_t>(m_exchange->Entries()) * m_exchange->Chunks());
    m_covered.Reset(m_config.leaves * cells);
    m_rawCount.assign(m_config.leaves * cells, 0);
    m_racksMissing.resize(cells);
    for (std::uint32_t chunk = 0; chunk < m_exchange->Chunks(); ++chunk)
    {
        std::copy(m_racks.begin(),
                  m_racks.end(),
                  m_racksMissing.begin() + static_cast<std::ptrdiff_t>(Index(0, chunk)));
    }
    const std::size_t values = m_config.value_mode ? cells * m_config.values_per_packet : 0;
    m_rawSums.assign(m_config.leaves * values, 0);
    m_coveredSums.assign(values, 0);
}

bool
Aggregation::AddRaw(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk)
{
    const std::size_t index = Index(slot, chunk);
    const bool rackDone = ++m_rawCount[rack * Cells() + index] == RackContributions(rack, slot);
    return rackDone && !m_covered.Test(rack * Cells() + index) && --m_racksMissing[index] == 0;
}

bool
Aggregation::Cover(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk)
{
    const std::size_t index = Index(slot, chunk);
    const bool fresh = m_covered.Set(rack * Cells() + index);
    const bool rawDone = m_rawCount[rack * Cells() + index] == RackContributions(rack, slot);
    return fresh && !rawDone && --m_racksMissing[index] == 0;
}

} // namespace netfold
