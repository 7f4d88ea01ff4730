#include "port.h"

#include "fabric.h"
#include "wire-codec.h"

namespace netfold
{

void
Fabric::Drop(const Frame& frame)
{
    if (wire)
    {
        wire->Release(frame);
        return;
    }
    Consume(frame);
}

Port::Port(Fabric& fabric, LinkClass linkClass, double rateBps, Ps delay, Node* owner, Node* peer, std::uint32_t peerIngress)
    : m_fabric(fabric),
      m_owner(owner),
      m_peer(peer),
      m_peerIngress(peerIngress),
      m_source(fabric.events.Add(this)),
      m_delay(delay),
      m_psPerByteQ32(static_cast<std::uint64_t>(8e12 / rateBps * 4294967296.0 + 0.5)),
      m_bytesPerPs(rateBps / 8e12),
      m_class(linkClass)
{
}

void
Port::EnqueueNext(Ps now)
{
    Frame& frame = m_flight.Next();
    const std::uint64_t backlog = Backlog(now);
    if (m_ecnKmax > 0 && static_cast<double>(backlog) > m_ecnKmin)
    {
        const double depth = static_cast<double>(backlog);
        const double probability =
            depth >= m_ecnKmax ? 1.0 : m_fabric.config.ecn_pmax * (depth - m_ecnKmin) / (m_ecnKmax - m_ecnKmin);
        if ((probability >= 1.0 || m_fabric.ecnRandom.Uniform() < probability) && !(frame.flags & kCongestionExperienced))
        {
            frame.flags |= kCongestionExperienced;
            ++m_fabric.counters.ecnMarks;
        }
    }

    const std::uint32_t wireBytes = frame.bytes + m_fabric.config.wire_gap_bytes;
    Ps start = std::max(now, m_busyUntil);
    if (m_paused)
    {
        // Held frames follow each other without a gap once the pause ends.
        if (m_held == 0)
        {
            m_pausedFrom = start;
        }
        else
        {
            start = m_busyUntil;
        }
        ++m_held;
    }
    m_busyUntil = start + Serialisation(wireBytes);
    frame.time = m_busyUntil + m_delay;
    const bool idle = m_flight.Empty();
    m_flight.Push();
    if (idle && !m_paused)
    {
        m_fabric.events.Arm(m_source, m_busyUntil + m_delay);
    }
    const std::uint64_t after = backlog + wireBytes;
    m_peak = std::max(m_peak, after);
    m_maxBacklog = std::max(m_maxBacklog, after);
}

Ps
Port::StartOf(const Frame& frame) const
{
    return frame.time - m_delay - Serialisation(frame.bytes + m_fabric.config.wire_gap_bytes);
}

void
Port::Pause(Ps now)
{
    if (m_paused)
    {
        return;
    }
    m_paused = true;
    m_held = 0;
    m_pausedFrom = std::max(now, m_busyUntil);
    for (std::size_t i = m_flight.Size(); i-- > 0;)
    {
        const Ps start = StartOf(m_flight[i]);
        if (start < now)
        {
            break;
        }
        m_pausedFrom = start;
        ++m_held;
    }
    if (m_held > 0 && m_held == m_flight.Size())
    {
        m_fabric.events.Disarm(m_source);
    }
}

void
Port::Resume(Ps now)
{
    if (!m_paused)
    {
        return;
    }
    m_paused = false;
    if (m_held > 0)
    {
        const Ps shift = std::max<Ps>(0, now - m_pausedFrom);
        const std::size_t size = m_flight.Size();
        for (std::size_t i = size - m_held; i < size; ++i)
        {
            m_flight[i].time += shift;
        }
        m_busyUntil += shift;
        if (m_held == size)
        {
            m_fabric.events.Arm(m_source, m_flight.Front().time);
        }
        m_held = 0;
    }
    m_owner->PortResumed(now);
}

std::uint64_t
Port::Departed(Ps now)
{
    const std::size_t moving = m_flight.Size() - (m_paused ? m_held : 0);
    while (m_onWire < moving && m_flight[m_onWire].time - m_delay <= now)
    {
        ++m_onWire;
    }
    return m_arrived + m_onWire;
}

Ps
Port::NextDeparture(Ps now)
{
    Departed(now);
    const std::size_t moving = m_flight.Size() - (m_paused ? m_held : 0);
    return m_onWire < moving ? m_flight[m_onWire].time - m_delay : kNever;
}

void
Port::Prefetch()
{
    if (m_fabric.wire && !m_flight.Empty())
    {
        m_peer->Announce(m_flight.Front(), m_peerIngress);
    }
}

void
Port::Fire(Ps now)
{
    m_flight.Prefetch(4);
    Frame frame = m_flight.Pop();
    ++m_arrived;
    m_onWire -= m_onWire > 0;
    if (m_flight.Size() > (m_paused ? m_held : 0))
    {
        m_fabric.events.Arm(m_source, m_flight.Front().time);
        if (m_fabric.wire)
        {
            m_fabric.wire->pool.Prefetch(m_flight.Front().payload);
        }
    }

    Counters& counters = m_fabric.counters;
    const auto linkClass = static_cast<std::size_t>(m_class);
    const auto kind = static_cast<std::size_t>(frame.kind);
    ++counters.hops;
    ++counters.frames[linkClass][kind];
    counters.bytes[linkClass][kind] += frame.bytes;
    Carried& carried = m_carried[frame.kind == Kind::Background];
    ++carried.frames;
    carried.bytes += frame.bytes;

    const Config& config = m_fabric.config;
    if (config.loss_rate > 0)
    {
        // Gilbert-Elliott with loss probability 1 in the bad state: the bad state's mean length is the mean burst, and
        // the stationary share of time in it is the loss rate. A mean burst of 1 is independent loss.
        const double leave = 1.0 / config.loss_mean_burst;
        const double enter = std::min(1.0, leave * config.loss_rate / (1.0 - std::min(config.loss_rate, 0.999999)));
        const double draw = m_fabric.lossRandom.Uniform();
        m_lossBurst = config.loss_mean_burst <= 1.0 ? draw < config.loss_rate
                                                    : (m_lossBurst ? draw >= leave : draw < enter);
        if (m_lossBurst)
        {
            ++counters.losses;
            m_fabric.Drop(frame);
            return;
        }
    }
    if (config.packet_sample && ++m_fabric.sampleCountdown >= config.packet_sample)
    {
        m_fabric.sampleCountdown = 0;
        m_fabric.samples.push_back({now, frame, m_class});
    }
    m_peer->Receive(frame, m_peerIngress, now);
}

} // namespace netfold
