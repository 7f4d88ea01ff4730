// The state of the in-network exchange that is running: what every leaf's aggregators hold and what every owner still misses.
//
// Blocks run in step (no worker starts a block before all have finished the one before), so there is one such state. Frames
// carry the exchange's tag; what arrives with another tag is stale and changes nothing.
#ifndef NETFOLD_AGGREGATION_H
#define NETFOLD_AGGREGATION_H

#include "config.h"
#include "exchange.h"

#include <vector>

namespace netfold
{

enum class SlotState : std::uint8_t
{
    Free,     // untouched
    Held,     // an aggregator is allocated
    Bypassed, // there was none: contributions are forwarded unaggregated
    Done,     // completed and given back
};

// One leaf's aggregators. Index of a slot's chunk: chunk * slots + slot, so that a packet touches one chunk's stripe.
struct LeafAggregators
{
    std::vector<std::uint32_t> remaining;
    std::vector<SlotState> state;  // first come first served only
    std::vector<std::int32_t> sums; // value mode: [index * values_per_packet]
    std::uint64_t freeSlots{0};
};

class Aggregation
{
  public:
    static constexpr std::uint32_t kNoTag = 0xFFFFFFFFu;

    Aggregation(const Config& config, std::uint32_t hostsPerLeaf)
        : m_config(config),
          m_hostsPerLeaf(hostsPerLeaf)
    {
    }

    void Start(std::uint32_t tag, Exchange& exchange);

    std::uint32_t Tag() const
    {
        return m_tag;
    }

    Exchange& Current() const
    {
        return *m_exchange;
    }

    std::size_t Index(std::uint32_t slot, std::uint32_t chunk) const
    {
        return static_cast<std::size_t>(chunk) * m_exchange->Slots() + slot;
    }

    std::uint16_t HomeLeaf(std::uint32_t slot) const
    {
        return m_home[slot];
    }

    LeafAggregators& Leaf(std::uint32_t leaf)
    {
        return m_leaves[leaf];
    }

    // presum: contributing workers of a slot in a leaf's rack.
    std::uint32_t RackWorkers(std::uint32_t leaf, std::uint32_t slot) const
    {
        return m_rackWorkers[static_cast<std::size_t>(leaf) * m_exchange->Slots() + slot];
    }

    // --- the owners' side ---
    std::uint64_t Pending(std::uint32_t worker) const
    {
        return m_pending[worker];
    }

    bool IsDone(std::uint32_t slot, std::uint32_t chunk) const
    {
        const std::size_t index = Index(slot, chunk);
        return (m_done[index >> 6] >> (index & 63)) & 1;
    }

    // Marks a chunk of a vertex received; false when it already was.
    bool MarkDone(std::uint32_t slot, std::uint32_t chunk);

    // Raw contributions, needed once something was bypassed or pulled.
    void PrepareRaw();

    bool IsRaw(std::uint32_t entry, std::uint32_t chunk) const
    {
        const std::size_t index = static_cast<std::size_t>(chunk) * m_exchange->Entries() + entry;
        return !m_raw.empty() && ((m_raw[index >> 6] >> (index & 63)) & 1);
    }

    bool MarkRaw(std::uint32_t entry, std::uint32_t chunk);

    // Counts raw contributions to a slot's chunk; true when they are now complete.
    bool AddRaw(std::uint32_t slot, std::uint32_t chunk, std::uint32_t contributions);

    std::int64_t* RawSums(std::uint32_t slot, std::uint32_t chunk)
    {
        return m_rawSums.data() + Index(slot, chunk) * m_config.values_per_packet;
    }

    // Contributions that make a slot complete: neighbours, or contributing workers with presum.
    std::uint32_t Expected(std::uint32_t slot) const
    {
        return m_config.presum ? m_exchange->EntryEnd(slot) - m_exchange->EntryBegin(slot) : m_exchange->Degree(slot);
    }

  private:
    std::uint16_t LeafOf(std::uint32_t worker) const
    {
        return static_cast<std::uint16_t>(worker / m_hostsPerLeaf);
    }

    void StartReserved();
    void StartFirstCome();

    const Config& m_config;
    std::uint32_t m_hostsPerLeaf;
    std::uint32_t m_tag{kNoTag};
    Exchange* m_exchange{nullptr};
    std::vector<std::uint16_t> m_home;
    std::vector<LeafAggregators> m_leaves;
    std::vector<std::uint32_t> m_rackWorkers;
    std::vector<std::uint64_t> m_pending;
    std::vector<std::uint64_t> m_done;
    std::vector<std::uint64_t> m_raw;
    std::vector<std::uint32_t> m_rawCount;
    std::vector<std::int64_t> m_rawSums;
};

} // namespace netfold

#endif
