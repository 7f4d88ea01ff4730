#include "exchange.h"

#include <algorithm>

namespace netfold
{

Exchange::Exchange(const PlanArrays& plan, std::int32_t block, std::uint32_t hostValues, std::uint32_t pipelineBins)
    : m_workers(plan.workers),
      m_block(block),
      m_chunks(plan.chunks),
      m_width(plan.width),
      m_bins(pipelineBins),
      m_hostValues(std::min(hostValues, plan.width)),
      m_hostChunks((plan.width + m_hostValues - 1) / m_hostValues),
      m_verticesPerPacket(std::max(1u, hostValues / plan.width))
{
    if (block >= 0)
    {
        const auto first = plan.blockPtr[block];
        m_slots = static_cast<std::uint32_t>(plan.blockPtr[block + 1] - first);
        m_level = plan.blockLevel[block];
        m_vertices = plan.blockVertices.data() + first;
        m_adjPtr = plan.adjPtr.data() + first;
        m_adj = plan.adj.data();
    }
    else
    {
        m_slots = static_cast<std::uint32_t>(plan.owner.size());
        m_adjPtr = plan.residualPtr.data();
        m_adj = plan.residualAdj.data();
    }

    m_owner.resize(m_slots);
    m_ownPtr.assign(m_workers + 1, 0);
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        m_owner[slot] = static_cast<std::uint16_t>(plan.owner[BoundaryIndex(slot)]);
        ++m_ownPtr[m_owner[slot] + 1];
    }
    for (std::uint32_t worker = 0; worker < m_workers; ++worker)
    {
        m_ownPtr[worker + 1] += m_ownPtr[worker];
    }
    m_ownSlots.resize(m_slots);
    std::vector<std::uint64_t> next(m_ownPtr.begin(), m_ownPtr.end() - 1);
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        m_ownSlots[next[m_owner[slot]]++] = slot;
    }

    if (HostBased())
    {
        IndexEntries();
        IndexFlows();
    }
}

void
Exchange::IndexEntries()
{
    if (EntriesIndexed())
    {
        return;
    }
    const auto base = m_adjPtr[0];
    m_entryPtr.reserve(m_slots + 1);
    m_grouped.resize(Edges());
    std::vector<std::uint32_t> count(m_workers, 0);
    std::vector<std::uint64_t> place(m_workers, 0);
    std::vector<std::uint16_t> touched;
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        m_entryPtr.push_back(static_cast<std::uint32_t>(m_entryWorker.size()));
        touched.clear();
        for (const auto neighbour : Neighbours(slot))
        {
            const std::uint16_t worker = m_owner[neighbour];
            if (count[worker]++ == 0)
            {
                touched.push_back(worker);
            }
        }
        std::sort(touched.begin(), touched.end());
        auto offset = static_cast<std::uint64_t>(m_adjPtr[slot] - base);
        for (const auto worker : touched)
        {
            m_entryWorker.push_back(worker);
            m_entryAdj.push_back(offset);
            place[worker] = offset;
            offset += count[worker];
            count[worker] = 0;
        }
        for (const auto neighbour : Neighbours(slot))
        {
            m_grouped[place[m_owner[neighbour]]++] = neighbour;
        }
    }
    m_entryPtr.push_back(static_cast<std::uint32_t>(m_entryWorker.size()));
    m_entryAdj.push_back(Edges());
    m_entryWorker.shrink_to_fit();
    m_entryAdj.shrink_to_fit();
}

std::uint32_t
Exchange::EntrySlot(std::uint32_t entry) const
{
    const auto after = std::upper_bound(m_entryPtr.begin(), m_entryPtr.end(), entry);
    return static_cast<std::uint32_t>(after - m_entryPtr.begin()) - 1;
}

std::uint32_t
Exchange::FindEntry(std::uint32_t slot, std::uint32_t worker) const
{
    const auto begin = m_entryWorker.begin() + m_entryPtr[slot];
    const auto end = m_entryWorker.begin() + m_entryPtr[slot + 1];
    const auto found = std::lower_bound(begin, end, worker);
    return found != end && *found == worker ? static_cast<std::uint32_t>(found - m_entryWorker.begin()) : kNone;
}

void
Exchange::IndexContributions()
{
    IndexEntries();
    m_contributedPtr.assign(m_workers + 1, 0);
    for (const auto worker : m_entryWorker)
    {
        ++m_contributedPtr[worker + 1];
    }
    for (std::uint32_t worker = 0; worker < m_workers; ++worker)
    {
        m_contributedPtr[worker + 1] += m_contributedPtr[worker];
    }
    m_contributed.resize(Entries());
    std::vector<std::uint64_t> next(m_contributedPtr.begin(), m_contributedPtr.end() - 1);
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        for (auto entry = m_entryPtr[slot]; entry < m_entryPtr[slot + 1]; ++entry)
        {
            m_contributed[next[m_entryWorker[entry]]++] = slot;
        }
    }
}

void
Exchange::IndexFlows()
{
    m_flowPtr.assign(static_cast<std::size_t>(m_workers) * m_workers + 1, 0);
    const auto pair = [this](std::uint32_t slot, std::uint32_t entry) {
        return static_cast<std::size_t>(m_entryWorker[entry]) * m_workers + m_owner[slot];
    };
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        for (auto entry = m_entryPtr[slot]; entry < m_entryPtr[slot + 1]; ++entry)
        {
            ++m_flowPtr[pair(slot, entry) + 1];
        }
    }
    for (std::size_t i = 1; i < m_flowPtr.size(); ++i)
    {
        m_flowPtr[i] += m_flowPtr[i - 1];
    }
    m_flowEntries.resize(Entries());
    std::vector<std::uint64_t> next(m_flowPtr.begin(), m_flowPtr.end() - 1);
    for (std::uint32_t slot = 0; slot < m_slots; ++slot)
    {
        for (auto entry = m_entryPtr[slot]; entry < m_entryPtr[slot + 1]; ++entry)
        {
            m_flowEntries[next[pair(slot, entry)]++] = entry;
        }
    }
}

Propagation
BuildPropagation(const PlanArrays& plan, std::uint32_t hostValues, std::uint32_t pipelineBins, bool indexEntries, bool presum)
{
    Propagation propagation{plan, {}};
    const auto blocks = static_cast<std::int32_t>(plan.blockLevel.size());
    propagation.exchanges.reserve(blocks + 1);
    for (std::int32_t block = 0; block < blocks; ++block)
    {
        propagation.exchanges.emplace_back(plan, block, hostValues, 1);
        if (indexEntries)
        {
            propagation.exchanges.back().IndexEntries();
        }
        if (presum)
        {
            propagation.exchanges.back().IndexContributions();
        }
    }
    if (!plan.residualAdj.empty())
    {
        propagation.exchanges.emplace_back(plan, -1, hostValues, pipelineBins);
    }
    return propagation;
}

} // namespace netfold
