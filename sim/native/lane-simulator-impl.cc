#include "lane-simulator-impl.h"

#include "ns3/map-scheduler.h"

#include <algorithm>
#include <stdexcept>

namespace netfold
{

using ns3::EventId;
using ns3::EventImpl;
using ns3::Scheduler;
using ns3::Time;

void
UsePicoseconds()
{
    if (Time::GetResolution() != Time::PS) // once set it stays
    {
        Time::SetResolution(Time::PS);
    }
}

std::uint32_t
SourceTree::Add()
{
    if (m_used == m_leaves)
    {
        m_leaves *= 2;
        m_keys.resize(m_leaves, kIdle);
        Rebuild();
    }
    return m_used++;
}

void
SourceTree::Reset()
{
    m_used = 0;
    std::fill(m_keys.begin(), m_keys.end(), kIdle);
    Rebuild();
}

void
SourceTree::Rebuild()
{
    m_winner.resize(2 * m_leaves);
    for (std::uint32_t i = 0; i < m_leaves; ++i)
    {
        m_winner[m_leaves + i] = i;
    }
    for (std::uint32_t node = m_leaves - 1; node >= 1; --node)
    {
        const auto left = m_winner[2 * node];
        const auto right = m_winner[2 * node + 1];
        m_winner[node] = m_keys[right] < m_keys[left] ? right : left;
    }
}

NS_OBJECT_ENSURE_REGISTERED(LaneSimulatorImpl);

ns3::TypeId
LaneSimulatorImpl::GetTypeId()
{
    static ns3::TypeId tid = ns3::TypeId("netfold::LaneSimulatorImpl")
                                 .SetParent<ns3::SimulatorImpl>()
                                 .SetGroupName("netfold")
                                 .AddConstructor<LaneSimulatorImpl>();
    return tid;
}

std::uint32_t
LaneSimulatorImpl::AddSource(EventSource* source)
{
    const std::uint32_t id = m_tree.Add();
    m_sources.resize(std::max<std::size_t>(m_sources.size(), id + 1));
    m_sources[id] = source;
    return id;
}

void
LaneSimulatorImpl::DoDispose()
{
    if (m_events)
    {
        while (!m_events->IsEmpty())
        {
            m_events->RemoveNext().impl->Unref();
        }
        m_events = nullptr;
    }
    SimulatorImpl::DoDispose();
}

void
LaneSimulatorImpl::Destroy()
{
    while (!m_destroyEvents.empty())
    {
        ns3::Ptr<EventImpl> event = m_destroyEvents.front().PeekEventImpl();
        m_destroyEvents.pop_front();
        if (!event->IsCancelled())
        {
            event->Invoke();
        }
    }
    m_tree.Reset();
    m_sources.clear();
}

void
LaneSimulatorImpl::SetScheduler(ns3::ObjectFactory factory)
{
    ns3::Ptr<Scheduler> scheduler = factory.Create<Scheduler>();
    if (m_events)
    {
        while (!m_events->IsEmpty())
        {
            scheduler->Insert(m_events->RemoveNext());
        }
    }
    m_events = scheduler;
}

void
LaneSimulatorImpl::RefreshNext()
{
    if (m_events->IsEmpty())
    {
        m_nextNsKey = SourceTree::kIdle;
        return;
    }
    const Scheduler::Event next = m_events->PeekNext();
    m_nextNsKey = SourceTree::MakeKey(static_cast<Ps>(next.key.m_ts), next.key.m_uid);
}

void
LaneSimulatorImpl::RunNsEvent()
{
    const Scheduler::Event next = m_events->RemoveNext();
    RefreshNext();
    m_now = static_cast<Ps>(next.key.m_ts);
    m_context = next.key.m_context;
    m_currentUid = next.key.m_uid;
    next.impl->Invoke();
    next.impl->Unref();
}

void
LaneSimulatorImpl::Run()
{
    m_stop = false;
    RefreshNext();
    while (!m_stop)
    {
        const SourceTree::Key top = m_tree.TopKey();
        if (top < m_nextNsKey)
        {
            const std::uint32_t source = m_tree.Top();
            m_now = static_cast<Ps>(top >> 64);
            m_currentUid = static_cast<std::uint64_t>(top);
            m_context = ns3::Simulator::NO_CONTEXT;
            m_firing = source;
            m_rearmed = false;
            const std::uint32_t next = m_tree.RunnerUp();
            if (m_tree.KeyOf(next) != SourceTree::kIdle)
            {
                m_sources[next]->Prefetch();
            }
            m_sources[source]->Fire(m_now);
            m_firing = kNone;
            if (!m_rearmed)
            {
                m_tree.Set(source, SourceTree::kIdle);
            }
        }
        else if (m_nextNsKey != SourceTree::kIdle)
        {
            RunNsEvent();
        }
        else
        {
            break;
        }
        ++m_executed;
    }
}

bool
LaneSimulatorImpl::IsFinished() const
{
    return m_stop || (m_events->IsEmpty() && m_tree.TopKey() == SourceTree::kIdle);
}

void
LaneSimulatorImpl::Stop()
{
    m_stop = true;
}

EventId
LaneSimulatorImpl::Stop(const Time& delay)
{
    return ns3::Simulator::Schedule(delay, &ns3::Simulator::Stop);
}

EventId
LaneSimulatorImpl::Insert(std::uint32_t context, const Time& delay, EventImpl* event)
{
    if (delay.IsStrictlyNegative())
    {
        throw std::logic_error("an ns-3 event was scheduled in the past");
    }
    Scheduler::Event entry;
    entry.impl = event;
    entry.key.m_ts = static_cast<std::uint64_t>(m_now + delay.GetTimeStep());
    entry.key.m_context = context;
    if (static_cast<std::uint32_t>(m_uid) < EventId::UID::VALID)
    {
        m_uid += EventId::UID::VALID; // the low 32 bits wrapped onto ns-3's reserved uids
    }
    entry.key.m_uid = static_cast<std::uint32_t>(m_uid++);
    m_events->Insert(entry);
    RefreshNext();
    return EventId(event, entry.key.m_ts, context, entry.key.m_uid);
}

EventId
LaneSimulatorImpl::Schedule(const Time& delay, EventImpl* event)
{
    return Insert(m_context, delay, event);
}

void
LaneSimulatorImpl::ScheduleWithContext(std::uint32_t context, const Time& delay, EventImpl* event)
{
    Insert(context, delay, event);
}

EventId
LaneSimulatorImpl::ScheduleNow(EventImpl* event)
{
    return Insert(m_context, Time(0), event);
}

EventId
LaneSimulatorImpl::ScheduleDestroy(EventImpl* event)
{
    EventId id(ns3::Ptr<EventImpl>(event, false), m_now, ns3::Simulator::NO_CONTEXT, EventId::UID::DESTROY);
    m_destroyEvents.push_back(id);
    ++m_uid;
    return id;
}

void
LaneSimulatorImpl::Remove(const EventId& id)
{
    if (id.GetUid() == EventId::UID::DESTROY)
    {
        m_destroyEvents.remove(id);
        return;
    }
    if (IsExpired(id))
    {
        return;
    }
    Scheduler::Event event;
    event.impl = id.PeekEventImpl();
    event.key.m_ts = id.GetTs();
    event.key.m_context = id.GetContext();
    event.key.m_uid = id.GetUid();
    m_events->Remove(event);
    event.impl->Cancel();
    event.impl->Unref();
    RefreshNext();
}

void
LaneSimulatorImpl::Cancel(const EventId& id)
{
    if (!IsExpired(id))
    {
        id.PeekEventImpl()->Cancel();
    }
}

bool
LaneSimulatorImpl::IsExpired(const EventId& id) const
{
    if (id.PeekEventImpl() == nullptr || id.PeekEventImpl()->IsCancelled())
    {
        return true;
    }
    if (id.GetUid() == EventId::UID::DESTROY)
    {
        return std::find(m_destroyEvents.begin(), m_destroyEvents.end(), id) == m_destroyEvents.end();
    }
    const auto ts = static_cast<Ps>(id.GetTs());
    return ts < m_now || (ts == m_now && id.GetUid() <= m_currentUid);
}

Time
LaneSimulatorImpl::Now() const
{
    return Time(m_now);
}

Time
LaneSimulatorImpl::GetDelayLeft(const EventId& id) const
{
    return IsExpired(id) ? Time(0) : Time(static_cast<Ps>(id.GetTs()) - m_now);
}

Time
LaneSimulatorImpl::GetMaximumSimulationTime() const
{
    return Time(kNever);
}

std::uint32_t
LaneSimulatorImpl::GetSystemId() const
{
    return 0;
}

std::uint32_t
LaneSimulatorImpl::GetContext() const
{
    return m_context;
}

std::uint64_t
LaneSimulatorImpl::GetEventCount() const
{
    return m_executed;
}

} // namespace netfold
