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
    std::vector<SlotState> state;   // first come first served only
    std::vector<std::int32_t> sums; // value mode: [index * values_per_packet]
    std::uint64_t freeSlots{0};
};

class BitSet
{
  public:
    void Reset(std::size_t bits)
    {
        m_words.assign((bits + 63) / 64, 0);
    }

    bool Empty() const
    {
        return m_words.empty();
    }

    bool Test(std::size_t bit) const
    {
        return (m_words[bit >> 6] >> (bit & 63)) & 1;
    }

    bool Set(std::size_t bit) // true when it was not set before
    {
        const std::uint64_t mask = 1ull << (bit & 63);
        const bool fresh = !(m_words[bit >> 6] & mask);
        m_words[bit >> 6] |= mask;
        return fresh;
    }

  private:
    std::vector<std::uint64_t> m_words;
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

    // Contributions to a slot from a leaf's rack: its neighbours there or, with presum, its contributing workers. Known
    // for first-come exchanges from the start, for others once PrepareRaw() has been called.
    std::uint32_t RackContributions(std::uint32_t rack, std::uint32_t slot) const
    {
        return m_rackContributions[static_cast<std::size_t>(rack) * m_exchange->Slots() + slot];
    }

    // Racks that contribute to a slot.
    std::uint32_t Racks(std::uint32_t slot) const
    {
        return m_racks[slot];
    }

    // First come first served with rack partial sums: a rack whose leaf had no aggregator says so to the owner's leaf, and
    // the result's header lists such racks.
    bool SetRawRack(std::uint32_t rack, std::size_t index)
    {
        return m_rawRacks.Set(rack * Cells() + index);
    }

    bool IsRawRack(std::uint32_t rack, std::size_t index) const
    {
        return !m_rawRacks.Empty() && m_rawRacks.Test(rack * Cells() + index);
    }

    // --- the owners' side ---
    // A chunk of a vertex is complete when every contributing rack is: covered by a sum, or raw to the last contribution.
    std::uint64_t Pending(std::uint32_t worker) const
    {
        return m_pending[worker];
    }

    bool IsDone(std::uint32_t slot, std::uint32_t chunk) const
    {
        return m_done.Test(Index(slot, chunk));
    }

    // Marks a chunk of a vertex received; false when it already was.
    bool MarkDone(std::uint32_t slot, std::uint32_t chunk);

    // Raw contributions, needed once something was bypassed or pulled.
    void PrepareRaw();

    bool IsRaw(std::uint32_t entry, std::uint32_t chunk) const
    {
        return m_raw.Test(static_cast<std::size_t>(chunk) * m_exchange->Entries() + entry);
    }

    bool MarkRaw(std::uint32_t entry, std::uint32_t chunk)
    {
        return m_raw.Set(static_cast<std::size_t>(chunk) * m_exchange->Entries() + entry);
    }

    bool IsCovered(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk) const
    {
        return m_covered.Test(rack * Cells() + Index(slot, chunk));
    }

    // One raw contribution from a rack, or a rack's sum; both return whether the slot's chunk is complete now.
    bool AddRaw(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk);
    bool Cover(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk);

    // Value mode: what came raw from a rack, and what came summed up.
    std::int64_t* RawSums(std::uint32_t rack, std::uint32_t slot, std::uint32_t chunk)
    {
        return m_rawSums.data() + (rack * Cells() + Index(slot, chunk)) * m_config.values_per_packet;
    }

    std::int64_t* CoveredSums(std::uint32_t slot, std::uint32_t chunk)
    {
        return m_coveredSums.data() + Index(slot, chunk) * m_config.values_per_packet;
    }

    std::uint32_t LeafOf(std::uint32_t worker) const
    {
        return worker / m_hostsPerLeaf;
    }

  private:
    std::size_t Cells() const
    {
        return static_cast<std::size_t>(m_exchange->Slots()) * m_exchange->Chunks();
    }

    void CountRackContributions();
    void StartReserved();
    void StartFirstCome();

    const Config& m_config;
    std::uint32_t m_hostsPerLeaf;
    std::uint32_t m_tag{kNoTag};
    Exchange* m_exchange{nullptr};
    std::vector<std::uint16_t> m_home;
    std::vector<LeafAggregators> m_leaves;
    std::vector<std::uint32_t> m_rackContributions; // [rack * slots + slot]
    std::vector<std::uint16_t> m_racks;
    BitSet m_rawRacks; // [rack * cells + index]
    std::vector<std::uint64_t> m_pending;
    BitSet m_done;
    BitSet m_raw;     // [chunk * entries + entry]
    BitSet m_covered; // [rack * cells + index]
    std::vector<std::uint32_t> m_rawCount;     // [rack * cells + index]
    std::vector<std::uint16_t> m_racksMissing; // [index]
    std::vector<std::int64_t> m_rawSums;
    std::vector<std::int64_t> m_coveredSums;
};

} // namespace netfold

#endif
