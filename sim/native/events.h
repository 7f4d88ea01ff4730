// How the models schedule: on the source lane of LaneSimulatorImpl, or, to prove the lane right, event by event on
// whatever SimulatorImpl ns-3 has (tests/sim/test_lane.py compares the two byte for byte).
#ifndef NETFOLD_EVENTS_H
#define NETFOLD_EVENTS_H

#include "lane-simulator-impl.h"

#include "ns3/simulator.h"

#include <vector>

namespace netfold
{

class Events
{
  public:
    explicit Events(LaneSimulatorImpl* lane)
        : m_lane(lane)
    {
    }

    std::uint32_t Add(EventSource* source)
    {
        if (m_lane)
        {
            return m_lane->AddSource(source);
        }
        m_stock.push_back({source, ns3::EventId()});
        return static_cast<std::uint32_t>(m_stock.size() - 1);
    }

    void Arm(std::uint32_t source, Ps at)
    {
        if (m_lane) [[likely]]
        {
            m_lane->Arm(source, at);
            return;
        }
        Stock& stock = m_stock[source];
        stock.event.Cancel();
        EventSource* target = stock.source;
        stock.event = ns3::Simulator::Schedule(ns3::Time(at - Now()), [target, at] { target->Fire(at); });
    }

    void Disarm(std::uint32_t source)
    {
        if (m_lane) [[likely]]
        {
            m_lane->Disarm(source);
            return;
        }
        m_stock[source].event.Cancel();
    }

    bool IsArmed(std::uint32_t source) const
    {
        return m_lane ? m_lane->IsArmed(source) : m_stock[source].event.IsPending();
    }

    Ps Now() const
    {
        return m_lane ? m_lane->NowPs() : ns3::Simulator::Now().GetTimeStep();
    }

  private:
    struct Stock
    {
        EventSource* source;
        ns3::EventId event;
    };

    LaneSimulatorImpl* m_lane;
    std::vector<Stock> m_stock;
};

} // namespace netfold

#endif
