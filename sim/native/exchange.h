// The plan as the simulation reads it: a propagation is a list of exchanges, one per block and one for the host-based rest.
//
// An exchange has slots (vertices), an owner per slot and an adjacency between slots; nothing here is decided, only indexed.
// An *entry* is one (slot, worker) pair that share an edge: what host-based sending moves, what a bypassed contribution or a
// pull reply is identified by, and, because the graph is symmetric, also which workers contribute to a slot.
#ifndef NETFOLD_EXCHANGE_H
#define NETFOLD_EXCHANGE_H

#include "units.h"

#include <algorithm>
#include <span>
#include <vector>

namespace netfold
{

// Borrowed arrays of workloads.plan.Plan; the caller keeps them alive.
struct PlanArrays
{
    std::uint32_t workers{0};
    std::uint32_t width{0};
    std::uint32_t chunks{0};
    std::span<const std::int32_t> owner;
    std::span<const std::int32_t> blockLevel;
    std::span<const std::int64_t> blockPtr;
    std::span<const std::int32_t> blockVertices;
    std::span<const std::int64_t> adjPtr;
    std::span<const std::int32_t> adj;
    std::span<const std::int64_t> residualPtr;
    std::span<const std::int32_t> residualAdj;
};

class Exchange
{
  public:
    // block >= 0: that block of the plan; -1: the host-based rest. hostValues: values that fit a host-based packet.
    Exchange(const PlanArrays& plan, std::int32_t block, std::uint32_t hostValues, std::uint32_t pipelineBins);

    bool HostBased() const
    {
        return m_block < 0;
    }

    std::int32_t Block() const
    {
        return m_block;
    }

    std::int32_t Level() const
    {
        return m_level;
    }

    std::uint32_t Slots() const
    {
        return m_slots;
    }

    std::uint32_t Chunks() const
    {
        return m_chunks;
    }

    std::uint32_t Width() const
    {
        return m_width;
    }

    // Values in chunk `chunk` when chunks hold `perPacket` values.
    std::uint32_t ValuesIn(std::uint32_t chunk, std::uint32_t perPacket) const
    {
        const std::uint32_t first = chunk * perPacket;
        return std::min(perPacket, m_width - first);
    }

    std::uint32_t BoundaryIndex(std::uint32_t slot) const
    {
        return m_vertices ? static_cast<std::uint32_t>(m_vertices[slot]) : slot;
    }

    std::uint16_t Owner(std::uint32_t slot) const
    {
        return m_owner[slot];
    }

    std::span<const std::int32_t> Neighbours(std::uint32_t slot) const
    {
        return {m_adj + m_adjPtr[slot], static_cast<std::size_t>(m_adjPtr[slot + 1] - m_adjPtr[slot])};
    }

    std::uint32_t Degree(std::uint32_t slot) const
    {
        return static_cast<std::uint32_t>(m_adjPtr[slot + 1] - m_adjPtr[slot]);
    }

    std::uint64_t Edges() const // directed
    {
        return static_cast<std::uint64_t>(m_adjPtr[m_slots] - m_adjPtr[0]);
    }

    // A worker's slots in upload order.
    std::span<const std::uint32_t> OwnSlots(std::uint32_t worker) const
    {
        return {m_ownSlots.data() + m_ownPtr[worker], m_ownPtr[worker + 1] - m_ownPtr[worker]};
    }

    // --- entries; IndexEntries() builds them once, on first need for a block ---
    void IndexEntries();

    bool EntriesIndexed() const
    {
        return !m_entryPtr.empty();
    }

    std::uint32_t EntryBegin(std::uint32_t slot) const
    {
        return m_entryPtr[slot];
    }

    std::uint32_t EntryEnd(std::uint32_t slot) const
    {
        return m_entryPtr[slot + 1];
    }

    std::uint32_t Entries() const
    {
        return static_cast<std::uint32_t>(m_entryWorker.size());
    }

    std::uint16_t EntryWorker(std::uint32_t entry) const
    {
        return m_entryWorker[entry];
    }

    // Slots on the entry's worker that neighbour the entry's slot.
    std::span<const std::int32_t> EntryNeighbours(std::uint32_t entry) const
    {
        return {m_grouped.data() + m_entryAdj[entry], static_cast<std::size_t>(m_entryAdj[entry + 1] - m_entryAdj[entry])};
    }

    std::uint32_t EntrySlot(std::uint32_t entry) const;

    // The entry of (slot, worker), kNone when they share no edge.
    std::uint32_t FindEntry(std::uint32_t slot, std::uint32_t worker) const;

    // presum: the slots to which a worker contributes, in upload order. Built with the entries when asked for.
    void IndexContributions();

    std::span<const std::uint32_t> ContributedSlots(std::uint32_t worker) const
    {
        return {m_contributed.data() + m_contributedPtr[worker], m_contributedPtr[worker + 1] - m_contributedPtr[worker]};
    }

    // --- host-based flows: entries sorted by (receiver, sender), a sender's vertices in ascending order ---
    std::uint64_t FlowBegin(std::uint32_t receiver, std::uint32_t sender) const
    {
        return m_flowPtr[static_cast<std::size_t>(receiver) * m_workers + sender];
    }

    std::uint64_t FlowEnd(std::uint32_t receiver, std::uint32_t sender) const
    {
        return m_flowPtr[static_cast<std::size_t>(receiver) * m_workers + sender + 1];
    }

    std::uint32_t FlowEntry(std::uint64_t position) const
    {
        return m_flowEntries[position];
    }

    // First position of the flow past pipeline bin `bin` (bins split each flow evenly).
    std::uint64_t BinEnd(std::uint32_t receiver, std::uint32_t sender, std::uint32_t bin) const
    {
        const std::uint64_t begin = FlowBegin(receiver, sender);
        const std::uint64_t length = FlowEnd(receiver, sender) - begin;
        return begin + (length * (bin + 1) + m_bins - 1) / m_bins;
    }

    std::uint32_t BinOf(std::uint32_t receiver, std::uint32_t sender, std::uint64_t position) const
    {
        const std::uint64_t begin = FlowBegin(receiver, sender);
        const std::uint64_t length = FlowEnd(receiver, sender) - begin;
        return static_cast<std::uint32_t>((position - begin) * m_bins / length);
    }

    std::uint32_t Bins() const
    {
        return m_bins;
    }

    // Host-based packets: values per packet and whole vertices per packet.
    std::uint32_t HostValues() const
    {
        return m_hostValues;
    }

    std::uint32_t HostChunks() const
    {
        return m_hostChunks;
    }

    std::uint32_t VerticesPerPacket() const
    {
        return m_verticesPerPacket;
    }

  private:
    void IndexFlows();

    std::uint32_t m_workers;
    std::int32_t m_block;
    std::int32_t m_level{-1};
    std::uint32_t m_slots;
    std::uint32_t m_chunks;
    std::uint32_t m_width;
    std::uint32_t m_bins;
    std::uint32_t m_hostValues;
    std::uint32_t m_hostChunks;
    std::uint32_t m_verticesPerPacket;
    const std::int32_t* m_vertices{nullptr};
    const std::int64_t* m_adjPtr{nullptr};
    const std::int32_t* m_adj{nullptr};
    std::vector<std::uint16_t> m_owner;
    std::vector<std::uint64_t> m_ownPtr;
    std::vector<std::uint32_t> m_ownSlots;
    std::vector<std::uint32_t> m_entryPtr;
    std::vector<std::uint16_t> m_entryWorker;
    std::vector<std::uint64_t> m_entryAdj;
    std::vector<std::int32_t> m_grouped;
    std::vector<std::uint64_t> m_contributedPtr;
    std::vector<std::uint32_t> m_contributed;
    std::vector<std::uint64_t> m_flowPtr;
    std::vector<std::uint32_t> m_flowEntries;
};

// The exchanges of one plan, in the order in which a propagation runs them.
struct Propagation
{
    PlanArrays plan;
    std::vector<Exchange> exchanges;
};

Propagation BuildPropagation(const PlanArrays& plan, std::uint32_t hostValues, std::uint32_t pipelineBins, bool indexEntries, bool presum);

} // namespace netfold

#endif
