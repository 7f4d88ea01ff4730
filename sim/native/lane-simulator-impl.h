// An ns-3 SimulatorImpl with a second, allocation-free lane of events.
//
// Ordinary ns-3 events (Simulator::Schedule and all that ns-3's own models do) live in the ns-3 Scheduler as usual. Beside
// them, an EventSource (a link, a host's transmitter, a timer) has at most one pending event, kept in a winner tree that is
// indexed by the source: arming, re-arming and cancelling cost log2(sources) compares and no memory. Both lanes share one
// clock and one uid counter, so the order of execution is exactly ns-3's: by time, then by the order of scheduling.
#ifndef NETFOLD_LANE_SIMULATOR_IMPL_H
#define NETFOLD_LANE_SIMULATOR_IMPL_H

#include "units.h"

#include "ns3/event-id.h"
#include "ns3/scheduler.h"
#include "ns3/simulator-impl.h"
#include "ns3/simulator.h"

#include <list>
#include <vector>

namespace netfold
{

// Before any event, by each of our extension modules: 100 Gb/s needs 80 ps per byte. All that is loaded into a process has
// one clock (libnetfold-sim's ns-3 is the process's), so whichever module comes first sets it.
void UsePicoseconds();

// Something that has at most one event pending; Fire() runs when its time comes.
class EventSource
{
  public:
    virtual ~EventSource() = default;
    virtual void Fire(Ps now) = 0;

    // Fire() comes soon: start loading what it will read. May come without Fire(), or more than once.
    virtual void Prefetch()
    {
    }
};

// Winner tree over (time, uid) keys, one leaf per source.
class SourceTree
{
  public:
    using Key = unsigned __int128;
    static constexpr Key kIdle = ~Key{0};

    std::uint32_t Add();
    void Reset();

    static Key MakeKey(Ps at, std::uint64_t uid)
    {
        return (static_cast<Key>(static_cast<std::uint64_t>(at)) << 64) | uid;
    }

    void Set(std::uint32_t source, Key key)
    {
        m_keys[source] = key;
        Update(source);
    }

    std::uint32_t Top() const
    {
        return m_winner[1];
    }

    Key TopKey() const
    {
        return m_keys[m_winner[1]];
    }

    // The source behind the top one: those that lost to it directly.
    std::uint32_t RunnerUp() const
    {
        std::uint32_t node = m_leaves + Top();
        std::uint32_t best = m_winner[node ^ 1];
        for (node >>= 1; node > 1; node >>= 1)
        {
            const std::uint32_t other = m_winner[node ^ 1];
            best = m_keys[other] < m_keys[best] ? other : best;
        }
        return best;
    }

    Key KeyOf(std::uint32_t source) const
    {
        return m_keys[source];
    }

  private:
    void Update(std::uint32_t source)
    {
        std::uint32_t node = (m_leaves + source) >> 1;
        while (node >= 1)
        {
            const std::uint32_t left = m_winner[2 * node];
            const std::uint32_t right = m_winner[2 * node + 1];
            m_winner[node] = m_keys[right] < m_keys[left] ? right : left;
            node >>= 1;
        }
    }

    void Rebuild();

    std::uint32_t m_leaves{2};
    std::uint32_t m_used{0};
    std::vector<Key> m_keys{kIdle, kIdle};
    std::vector<std::uint32_t> m_winner{0, 0, 0, 1};
};

class LaneSimulatorImpl : public ns3::SimulatorImpl
{
  public:
    static ns3::TypeId GetTypeId();

    LaneSimulatorImpl() = default;

    // --- the source lane ---
    std::uint32_t AddSource(EventSource* source);

    // (Re)schedule the source's one event at an absolute time >= now.
    void Arm(std::uint32_t source, Ps at)
    {
        m_rearmed |= source == m_firing;
        m_tree.Set(source, SourceTree::MakeKey(at, m_uid++));
    }

    void Disarm(std::uint32_t source)
    {
        m_tree.Set(source, SourceTree::kIdle);
    }

    bool IsArmed(std::uint32_t source) const
    {
        return m_tree.KeyOf(source) != SourceTree::kIdle && (source != m_firing || m_rearmed);
    }

    Ps NowPs() const
    {
        return m_now;
    }

    // --- ns3::SimulatorImpl ---
    void Destroy() override;
    bool IsFinished() const override;
    void Stop() override;
    ns3::EventId Stop(const ns3::Time& delay) override;
    ns3::EventId Schedule(const ns3::Time& delay, ns3::EventImpl* event) override;
    void ScheduleWithContext(std::uint32_t context, const ns3::Time& delay, ns3::EventImpl* event) override;
    ns3::EventId ScheduleNow(ns3::EventImpl* event) override;
    ns3::EventId ScheduleDestroy(ns3::EventImpl* event) override;
    void Remove(const ns3::EventId& id) override;
    void Cancel(const ns3::EventId& id) override;
    bool IsExpired(const ns3::EventId& id) const override;
    void Run() override;
    ns3::Time Now() const override;
    ns3::Time GetDelayLeft(const ns3::EventId& id) const override;
    ns3::Time GetMaximumSimulationTime() const override;
    void SetScheduler(ns3::ObjectFactory factory) override;
    std::uint32_t GetSystemId() const override;
    std::uint32_t GetContext() const override;
    std::uint64_t GetEventCount() const override;

  private:
    void DoDispose() override;
    ns3::EventId Insert(std::uint32_t context, const ns3::Time& delay, ns3::EventImpl* event);
    void RefreshNext();
    void RunNsEvent();

    SourceTree m_tree;
    std::vector<EventSource*> m_sources;
    ns3::Ptr<ns3::Scheduler> m_events;
    SourceTree::Key m_nextNsKey{SourceTree::kIdle}; // key of the ns-3 lane's head, cached
    std::list<ns3::EventId> m_destroyEvents;
    Ps m_now{0};
    // 64 bits, so that billions of link events stay ordered; ns-3's own EventId carries its low 32 bits.
    std::uint64_t m_uid{ns3::EventId::UID::VALID};
    std::uint64_t m_currentUid{ns3::EventId::UID::INVALID};
    std::uint32_t m_context{ns3::Simulator::NO_CONTEXT};
    std::uint64_t m_executed{0};
    std::uint32_t m_firing{kNone}; // the source whose Fire() runs now
    bool m_rearmed{false};         // ... and whether it has armed itself again
    bool m_stop{false};
};

} // namespace netfold

#endif
