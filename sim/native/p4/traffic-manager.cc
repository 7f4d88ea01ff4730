#include "traffic-manager.h"

#include <algorithm>

namespace netfold
{

namespace
{

constexpr int kPriorities = 8;
constexpr std::uint32_t kLongestPacket = 1u << 16;

std::uint64_t
Nanoseconds(Ps at)
{
    return static_cast<std::uint64_t>(at / kPsPerNs);
}

} // namespace

void
P4Output::Stopped(const std::string& reason)
{
    throw P4Stopped(reason);
}

// Calls a method of the traffic manager when its time comes.
class P4TrafficManager::Alarm final : public EventSource
{
  public:
    Alarm(P4TrafficManager& owner, void (P4TrafficManager::*method)(Ps))
        : source(owner.m_events.Add(this)),
          m_owner(owner),
          m_method(method)
    {
    }

    void Fire(Ps now) override
    {
        (m_owner.*m_method)(now);
        m_owner.Settle(now);
    }

    const std::uint32_t source;

  private:
    P4TrafficManager& m_owner;
    void (P4TrafficManager::*m_method)(Ps);
};

class P4TrafficManager::EgressPort final : public EventSource
{
  public:
    EgressPort(P4TrafficManager& owner, std::uint32_t number_, const P4PortSettings& settings_, bool leads_)
        : source(owner.m_events.Add(this)),
          number(number_),
          m_owner(owner)
    {
        Set(settings_, leads_);
    }

    void Set(const P4PortSettings& settings_, bool leads_)
    {
        settings = settings_;
        leads = leads_;
        // as the cluster's links round (port.cc), so that both keep the same picosecond
        psPerByteQ32 = settings.rateBps > 0 ? static_cast<std::uint64_t>(8e12 / settings.rateBps * 4294967296.0 + 0.5) : 0;
        bytesPerPs = settings.rateBps / 8e12;
    }

    void Fire(Ps now) override
    {
        m_owner.PortFree(*this, now);
        m_owner.Settle(now);
    }

    void Prefetch() override
    {
        // Which of the queues is next may change until then: the first that has one is the best guess.
        for (int priority = kPriorities - 1; priority >= 0 && waiting > 0; --priority)
        {
            auto& queue = queues[static_cast<std::size_t>(priority)];
            if (!queue.Empty())
            {
                m_owner.m_program.Prefetch(queue.Front().item);
                queue.Prefetch(1);
                return;
            }
        }
    }

    Ps Serialisation(std::size_t bytes) const
    {
        return static_cast<Ps>((static_cast<unsigned __int128>(bytes + settings.wireOverheadBytes) * psPerByteQ32) >> 32);
    }

    std::uint64_t Backlog(Ps now) const
    {
        const Ps ahead = std::max(busyUntil, now) - now + waitingPs;
        return static_cast<std::uint64_t>(static_cast<double>(ahead) * bytesPerPs + 0.5);
    }

    // Packets that the link has, but that have not begun to leave.
    std::size_t WaitingAhead(Ps now)
    {
        while (!ahead.Empty() && ahead.Front() <= now)
        {
            ahead.Pop();
        }
        return ahead.Size();
    }

    const std::uint32_t source;
    const std::uint32_t number;
    P4PortSettings settings;
    bool leads; // somewhere
    std::uint64_t psPerByteQ32;
    double bytesPerPs;
    std::array<Ring<Waiting>, kPriorities> queues;
    std::size_t waiting{0};
    bool sendsAhead{false}; // may give packets to its link before they leave
    Ring<Ps> ahead;         // when those leave; the past's may still be in it
    Ps waitingPs{0}; // their serialisation
    Ps busyUntil{0};
    std::uint32_t inService{0}; // bytes of the packet on the wire, of the buffer
    bool looping{false};        // ... which goes round when it is out
    Round loop{};
    std::uint64_t peak{0};
    P4PortCounters counters;

  private:
    P4TrafficManager& m_owner;
};

P4TrafficManager::P4TrafficManager(Events& events,
                                   P4Program& program,
                                   P4Output& output,
                                   P4SwitchSettings settings,
                                   Random* random)
    : m_events(events),
      m_program(program),
      m_output(output),
      m_settings(std::move(settings)),
      m_ownRandom(m_settings.seed, 2),
      m_random(random ? *random : m_ownRandom),
      m_pipelineAlarm(std::make_unique<Alarm>(*this, &P4TrafficManager::PipelineFree)),
      m_madeAlarm(std::make_unique<Alarm>(*this, &P4TrafficManager::MadeDue)),
      m_leavingAlarm(std::make_unique<Alarm>(*this, &P4TrafficManager::LeavingDue)),
      m_seen(program.Statistics())
{
}

P4TrafficManager::~P4TrafficManager() = default;

P4TrafficManager::EgressPort&
P4TrafficManager::PortAt(std::uint32_t port)
{
    if (port >= m_ports.size())
    {
        m_ports.resize(port + 1);
    }
    if (!m_ports[port])
    {
        m_ports[port] = std::make_unique<EgressPort>(*this, port, m_settings.recirculation, false);
        m_program.PassAtOnce(port, RoundsTakeNoTime());
    }
    return *m_ports[port];
}

void
P4TrafficManager::SetPort(std::uint32_t port, const P4PortSettings& settings)
{
    EgressPort& set = PortAt(port);
    set.Set(settings, true);
    set.sendsAhead = m_output.QueuesAhead() && set.psPerByteQ32 > 0 && settings.depthPackets == 0 &&
                     m_settings.bufferBytes == 0 && m_settings.ingressLatency == 0 && m_settings.egressLatency == 0;
    m_program.PassAtOnce(port, false);
    m_program.PassAhead(port, set.sendsAhead && set.waiting == 0);
}

std::uint64_t
P4TrafficManager::Backlog(std::uint32_t port, Ps now) const
{
    return port < m_ports.size() && m_ports[port] ? m_ports[port]->Backlog(now) : 0;
}

std::uint64_t
P4TrafficManager::TakePeak(std::uint32_t port, Ps now)
{
    EgressPort& egress = PortAt(port);
    const std::uint64_t peak = std::max(egress.peak, egress.Backlog(now));
    egress.peak = 0;
    return peak;
}

P4PortCounters
P4TrafficManager::Port(std::uint32_t port) const
{
    P4PortCounters counters;
    if (port < m_ports.size() && m_ports[port])
    {
        counters = m_ports[port]->counters;
        const P4Program::Turns turns = m_program.TurnsOf(port);
        counters.packets += turns.packets;
        counters.bytes += turns.bytes;
    }
    return counters;
}

std::uint64_t
P4TrafficManager::Recirculated() const
{
    std::uint64_t sum = m_recirculated;
    for (std::uint32_t port = 0; port < m_ports.size(); ++port)
    {
        sum += m_program.TurnsOf(port).packets;
    }
    return sum;
}

bool
P4TrafficManager::RoundsTakeNoTime() const
{
    return m_settings.passPs == 0 && m_settings.ingressLatency == 0 && m_settings.recirculation.rateBps == 0;
}

std::uint64_t
P4TrafficManager::TakeRecirculationPeak()
{
    const std::uint64_t peak = std::max(m_roundPeak, m_roundBytes);
    m_roundPeak = 0;
    return peak;
}

// ------------------------------------------------------------------------------------------------------- ingress

void
P4TrafficManager::Receive(std::uint32_t port, const std::uint8_t* data, std::size_t bytes, std::uint32_t source, Ps now)
{
    const Round round{kNew, kNone, port, static_cast<std::uint32_t>(bytes), 0, source};
    if (m_settings.passPs == 0 && !m_settling)
    {
        // The usual case: no wait, so no copy.
        m_settling = true;
        const auto made = m_program.Ingress(port, data, bytes, Nanoseconds(now), source);
        Take(made, now + m_settings.ingressLatency, 0, source);
        SendOutput(nullptr, false, now);
        m_settling = false;
        CheckStopped(port, now);
        Settle(now);
        return;
    }
    Round kept = round;
    kept.buffer = Keep(data, bytes);
    Admit(kept, now);
    Settle(now);
}

std::uint32_t
P4TrafficManager::Keep(const std::uint8_t* data, std::size_t bytes)
{
    std::uint32_t id;
    if (m_freeBuffers.empty())
    {
        id = static_cast<std::uint32_t>(m_buffers.size());
        m_buffers.emplace_back();
    }
    else
    {
        id = m_freeBuffers.back();
        m_freeBuffers.pop_back();
    }
    m_buffers[id].assign(data, data + bytes);
    return id;
}

// A packet wants a pass: new, resubmitted or recirculated.
void
P4TrafficManager::Admit(const Round& round, Ps now)
{
    if (m_settings.passPs == 0)
    {
        m_rounds.Push(round);
        return;
    }
    if (m_pipeline.Empty() && m_pipelineFree <= now)
    {
        m_pipelineFree = now + m_settings.passPs;
        m_rounds.Push(round);
        return;
    }
    if (m_pipeline.Size() >= m_settings.maxWaiting)
    {
        Abandon(round);
        Stop("has more than " + std::to_string(m_settings.maxWaiting) + " packets that wait for the pipeline", round.port, now);
        return;
    }
    m_roundBytes += round.bytes;
    m_roundPeak = std::max(m_roundPeak, m_roundBytes);
    m_pipeline.Push(round);
    if (m_pipeline.Size() == 1)
    {
        m_events.Arm(m_pipelineAlarm->source, std::max(now, m_pipelineFree));
    }
}

void
P4TrafficManager::PipelineFree(Ps now)
{
    const Round round = m_pipeline.Pop();
    m_roundBytes -= round.bytes;
    m_pipelineFree = now + m_settings.passPs;
    m_rounds.Push(round);
    if (!m_pipeline.Empty())
    {
        m_events.Arm(m_pipelineAlarm->source, m_pipelineFree);
    }
}

void
P4TrafficManager::RunIngress(const Round& round, Ps now)
{
    if (round.item != kNew)
    {
        const auto made = m_program.Pass(round.item, Nanoseconds(now), 0, 0, 0);
        Take(made, now + m_settings.ingressLatency, round.rounds, round.source);
    }
    else
    {
        const auto& buffer = m_buffers[round.buffer];
        const auto made = m_program.Ingress(round.port, buffer.data(), buffer.size(), Nanoseconds(now), round.source);
        Take(made, now + m_settings.ingressLatency, 0, round.source);
        m_freeBuffers.push_back(round.buffer);
    }
    SendOutput(nullptr, false, now);
    CheckStopped(round.port, now);
}

void
P4TrafficManager::Abandon(const Round& round)
{
    if (round.item != kNew)
    {
        m_program.Discard(round.item);
    }
    else
    {
        m_freeBuffers.push_back(round.buffer);
    }
}

// What a pass made: now, or when it is through the pipeline.
void
P4TrafficManager::Take(std::span<const P4Descriptor> made, Ps at, std::uint32_t rounds, std::uint32_t source)
{
    const Ps now = m_events.Now();
    for (const P4Descriptor& descriptor : made)
    {
        const Made one{descriptor, at, rounds, source};
        if (at <= now)
        {
            m_placed.Push(one);
            continue;
        }
        m_made.Push(one);
        if (m_made.Size() == 1)
        {
            m_events.Arm(m_madeAlarm->source, at);
        }
    }
}

void
P4TrafficManager::MadeDue(Ps now)
{
    while (!m_made.Empty() && m_made.Front().at <= now)
    {
        m_placed.Push(m_made.Pop());
    }
    if (!m_made.Empty())
    {
        m_events.Arm(m_madeAlarm->source, m_made.Front().at);
    }
}

// Everything that happens at this moment: packets to their queues first, then those that go round.
void
P4TrafficManager::Settle(Ps now)
{
    if (m_settling)
    {
        return;
    }
    m_settling = true;
    std::uint64_t passes = 0;
    while (true)
    {
        if (!m_placed.Empty())
        {
            const Made made = m_placed.Pop();
            if (m_placed.Size() > m_settings.maxCopies)
            {
                m_program.Discard(made.descriptor.item);
                Stop("makes more than " + std::to_string(m_settings.maxCopies) + " copies of a packet", made.descriptor.port, now);
                continue;
            }
            Place(made, now);
        }
        else if (!m_rounds.Empty())
        {
            const Round round = m_rounds.Pop();
            if (m_rounds.Size() > m_settings.maxCopies)
            {
                Abandon(round);
                Stop("makes more than " + std::to_string(m_settings.maxCopies) + " copies of a packet", round.port, now);
                continue;
            }
            if (++passes > m_settings.maxRounds || round.rounds > m_settings.maxRounds)
            {
                Abandon(round);
                Stop("recirculates or resubmits a packet without end (" + std::to_string(m_settings.maxRounds) +
                         " times so far)",
                     round.port,
                     now);
                continue;
            }
            RunIngress(round, now);
        }
        else
        {
            break;
        }
    }
    m_settling = false;
}

void
P4TrafficManager::Place(const Made& made, Ps now)
{
    const P4Descriptor& descriptor = made.descriptor;
    if (descriptor.bytes > kLongestPacket) [[unlikely]]
    {
        m_program.Discard(descriptor.item);
        Stop("makes a packet longer than " + std::to_string(kLongestPacket) + " bytes", descriptor.port, now);
        return;
    }
    if (descriptor.next == P4Descriptor::Egress)
    {
        Enqueue(made, now);
        return;
    }
    ++m_recirculated;
    Round round{descriptor.item, kNone, descriptor.port, descriptor.bytes, made.rounds + 1, made.source};
    EgressPort& port = PortAt(descriptor.port);
    if (descriptor.next == P4Descriptor::Recirculated)
    {
        ++port.counters.packets;
        port.counters.bytes += descriptor.bytes;
        if (port.psPerByteQ32 > 0)
        {
            // Its last bit must be out before it comes back in.
            port.busyUntil = now + port.Serialisation(descriptor.bytes);
            port.inService = descriptor.bytes + m_settings.fcsBytes;
            m_buffered += port.inService;
            port.loop = round;
            port.looping = true;
            m_events.Arm(port.source, port.busyUntil);
            return;
        }
    }
    Admit(round, now);
}

// -------------------------------------------------------------------------------------------------------- egress

void
P4TrafficManager::Enqueue(const Made& made, Ps now)
{
    const P4Descriptor& descriptor = made.descriptor;
    EgressPort& port = PortAt(descriptor.port);
    auto& queue = port.queues[std::min<std::uint32_t>(descriptor.priority, kPriorities - 1)];
    const P4PortSettings& settings = port.settings;
    const std::size_t ahead = port.WaitingAhead(now);
    const auto depth = static_cast<std::uint32_t>(queue.Size() + ahead);
    Waiting waiting{descriptor.item, now, 0, depth, descriptor.bytes, made.rounds, made.source, false};
    if (port.psPerByteQ32 == 0) // no rate, so no queue
    {
        RunEgress(port, waiting, 0, now);
        return;
    }
    const std::uint32_t buffered = descriptor.bytes + m_settings.fcsBytes;
    if ((settings.depthPackets && queue.Size() >= settings.depthPackets) || !HasRoom(buffered, now))
    {
        ++port.counters.drops;
        ++m_drops.queue;
        m_program.Discard(descriptor.item);
        m_output.Dropped(port.number, made.source, now);
        return;
    }
    if (IsOverfull(port, ahead, now))
    {
        m_program.Discard(descriptor.item);
        return;
    }
    waiting.mark = Enter(port, descriptor.bytes, now);
    waiting.serialisation = port.Serialisation(descriptor.bytes);
    port.waitingPs += waiting.serialisation;
    m_buffered += buffered;
    if (!port.leads)
    {
        m_roundBytes += descriptor.bytes;
        m_roundPeak = std::max(m_roundPeak, m_roundBytes);
    }
    queue.Push(waiting);
    if (++port.waiting == 1)
    {
        if (port.busyUntil <= now && !port.looping)
        {
            ServePort(port, now);
        }
        else if (!m_events.IsArmed(port.source))
        {
            m_events.Arm(port.source, port.busyUntil);
        }
    }
}

// More packets than a port may ever have; the run, or this packet, is at its end. `ahead`: WaitingAhead().
bool
P4TrafficManager::IsOverfull(const EgressPort& port, std::size_t ahead, Ps now)
{
    if (port.waiting + ahead < m_settings.maxWaiting) [[likely]]
    {
        return false;
    }
    Stop("has more than " + std::to_string(m_settings.maxWaiting) +
             (port.leads ? " packets in the queues of one port (a buffer of a size would drop them)"
                         : " packets that wait to go round"),
         port.number,
         now);
    return true;
}

// A packet joins the port's backlog; whether it is to be marked.
bool
P4TrafficManager::Enter(EgressPort& port, std::uint32_t bytes, Ps now)
{
    const P4PortSettings& settings = port.settings;
    const std::uint64_t backlog = port.Backlog(now);
    const std::uint64_t after = backlog + bytes + settings.wireOverheadBytes;
    port.peak = std::max(port.peak, after);
    port.counters.maxBacklogBytes = std::max(port.counters.maxBacklogBytes, after);
    const double depth = static_cast<double>(backlog);
    if (settings.ecnKmaxBytes <= 0 || depth <= settings.ecnKminBytes)
    {
        return false;
    }
    const double probability = depth >= settings.ecnKmaxBytes ? 1.0
                                                              : settings.ecnPmax * (depth - settings.ecnKminBytes) /
                                                                    (settings.ecnKmaxBytes - settings.ecnKminBytes);
    return probability >= 1.0 || m_random.Uniform() < probability;
}

bool
P4TrafficManager::HasRoom(std::uint32_t bytes, Ps now)
{
    if (m_settings.bufferBytes == 0)
    {
        return true;
    }
    for (auto& port : m_ports)
    {
        if (port && port->inService && !port->looping && port->busyUntil <= now)
        {
            m_buffered -= port->inService;
            port->inService = 0;
        }
    }
    return m_buffered + bytes <= m_settings.bufferBytes;
}

void
P4TrafficManager::PortFree(EgressPort& port, Ps now)
{
    if (port.looping)
    {
        port.looping = false;
        Admit(port.loop, now);
    }
    ServePort(port, now);
}

// The port is free: packets pass egress until one of them takes the wire.
void
P4TrafficManager::ServePort(EgressPort& port, Ps now)
{
    m_buffered -= port.inService;
    port.inService = 0;
    while (port.waiting > 0 && port.busyUntil <= now && !port.looping)
    {
        int priority = kPriorities - 1;
        while (port.queues[static_cast<std::size_t>(priority)].Empty())
        {
            --priority;
        }
        auto& queue = port.queues[static_cast<std::size_t>(priority)];
        const Waiting waiting = queue.Pop();
        --port.waiting;
        port.waitingPs -= waiting.serialisation;
        m_buffered -= waiting.bytes + m_settings.fcsBytes;
        if (!port.leads)
        {
            m_roundBytes -= waiting.bytes;
        }
        RunEgress(port, waiting, static_cast<std::uint32_t>(queue.Size()), now);
    }
    if (port.waiting > 0 && !m_events.IsArmed(port.source))
    {
        m_events.Arm(port.source, port.busyUntil);
    }
    if (port.waiting == 0 && port.sendsAhead)
    {
        m_program.PassAhead(port.number, true);
    }
}

void
P4TrafficManager::RunEgress(EgressPort& port, const Waiting& waiting, std::uint32_t depth, Ps now)
{
    const auto made =
        m_program.Pass(waiting.item, Nanoseconds(now), Nanoseconds(waiting.enqueued), waiting.enqueueDepth, depth);
    // Egress leaves clones and what goes round. The latter holds the port at once, or the next packet would overtake it.
    for (const P4Descriptor& descriptor : made)
    {
        if (descriptor.next == P4Descriptor::Egress && waiting.rounds >= m_settings.maxRounds)
        {
            m_program.Discard(descriptor.item);
            Stop("clones a packet without end", port.number, now);
            continue;
        }
        const std::uint32_t rounds = waiting.rounds + (descriptor.next == P4Descriptor::Egress);
        const Made one{descriptor, now, rounds, waiting.source};
        if (descriptor.next == P4Descriptor::Egress)
        {
            m_placed.Push(one);
        }
        else
        {
            Place(one, now);
        }
    }
    SendOutput(&port, waiting.mark, now);
    CheckStopped(port.number, now);
}

// What the last pass sent out, and what came of packets that it sent to ports that pass at once. Only what left egress of
// `from` was in a queue, where it may have been marked.
void
P4TrafficManager::SendOutput(const EgressPort* from, bool mark, Ps now)
{
    std::size_t copies = 0;
    m_program.TakeOutput([&](const P4Packet& packet) {
        EgressPort& port = PortAt(packet.port);
        if (!packet.ahead)
        {
            Send(port, packet, mark && &port == from, now);
        }
        else if (++copies <= m_settings.maxCopies) [[likely]]
        {
            SendAhead(port, packet, now);
        }
        else
        {
            Stop("makes more than " + std::to_string(m_settings.maxCopies) + " copies of a packet", port.number, now);
        }
    });
}

// A packet that passed egress before it waits.
void
P4TrafficManager::SendAhead(EgressPort& port, const P4Packet& packet, Ps now)
{
    if (IsOverfull(port, port.WaitingAhead(now), now))
    {
        return;
    }
    auto* data = const_cast<std::uint8_t*>(packet.data); // as in Send()
    const bool mark = Enter(port, static_cast<std::uint32_t>(packet.bytes), now);
    ++port.counters.packets;
    port.counters.bytes += packet.bytes;
    port.counters.marks += mark && MarkCongestion(data, packet.bytes);
    const Ps leaves = std::max(now, port.busyUntil);
    port.busyUntil = leaves + port.Serialisation(packet.bytes);
    port.ahead.Push(leaves);
    m_output.Transmit(port.number, data, packet.bytes, packet.source, leaves);
}

void
P4TrafficManager::Send(EgressPort& port, const P4Packet& packet, bool mark, Ps now)
{
    if (!port.leads)
    {
        ++port.counters.drops;
        ++m_drops.nowhere;
        m_output.Dropped(port.number, packet.source, now);
        return;
    }
    auto* data = const_cast<std::uint8_t*>(packet.data); // the library's own buffer, ours until the next pass
    ++port.counters.packets;
    port.counters.bytes += packet.bytes;
    port.counters.marks += mark && MarkCongestion(data, packet.bytes);
    if (port.psPerByteQ32 > 0)
    {
        port.busyUntil = now + port.Serialisation(packet.bytes);
        port.inService = static_cast<std::uint32_t>(packet.bytes) + m_settings.fcsBytes;
        m_buffered += port.inService;
    }
    if (m_settings.egressLatency == 0)
    {
        m_output.Transmit(port.number, data, packet.bytes, packet.source, now);
        return;
    }
    m_leaving.Push({now + m_settings.egressLatency, Keep(data, packet.bytes), port.number,
                    static_cast<std::uint32_t>(packet.bytes), packet.source});
    if (m_leaving.Size() == 1)
    {
        m_events.Arm(m_leavingAlarm->source, m_leaving.Front().at);
    }
}

void
P4TrafficManager::LeavingDue(Ps now)
{
    while (!m_leaving.Empty() && m_leaving.Front().at <= now)
    {
        const Leaving leaving = m_leaving.Pop();
        m_output.Transmit(leaving.port, m_buffers[leaving.buffer].data(), leaving.bytes, leaving.source, now);
        m_freeBuffers.push_back(leaving.buffer);
    }
    if (!m_leaving.Empty())
    {
        m_events.Arm(m_leavingAlarm->source, m_leaving.Front().at);
    }
}

// ------------------------------------------------------------------------------------------- programs without end

bool
P4TrafficManager::CheckStopped(std::uint32_t port, Ps now)
{
    const P4Statistics& counted = m_program.Statistics();
    m_drops.program += counted.drops - m_seen.drops;
    m_seen.drops = counted.drops;
    const bool runaway = counted.runaways != m_seen.runaways;
    const bool loop = counted.endlessLoops != m_seen.endlessLoops;
    const bool parser = counted.parserTimeouts != m_seen.parserTimeouts;
    if (!(runaway || loop || parser)) [[likely]]
    {
        return false;
    }
    m_seen = counted;
    if (runaway)
    {
        Stop("recirculates or resubmits a packet without end", port, now);
    }
    if (loop)
    {
        Stop("loops without end in one pass", port, now);
    }
    if (parser)
    {
        Stop("has a parser that loops without end", port, now);
    }
    return true;
}

void
P4TrafficManager::Stop(const std::string& what, std::uint32_t port, Ps now)
{
    ++m_stopped;
    m_output.Stopped(m_settings.name + ": " + m_settings.program + " " + what + "; port " + std::to_string(port) + ", at " +
                     std::to_string(now / kPsPerNs) + " ns, stopped packets: " + std::to_string(m_stopped));
}

// ------------------------------------------------------------------------------------------------------ marking

bool
MarkCongestion(std::uint8_t* data, std::size_t bytes)
{
    constexpr std::size_t ip = 14; // behind Ethernet without tags
    if (bytes < ip + 20 || data[12] != 0x08 || data[13] != 0x00 || data[ip] >> 4 != 4)
    {
        return false;
    }
    const std::uint8_t ecn = data[ip + 1] & 3;
    if (ecn == 0 || ecn == 3) // not capable, or marked already
    {
        return false;
    }
    const std::uint32_t before = static_cast<std::uint32_t>(data[ip] << 8 | data[ip + 1]);
    data[ip + 1] |= 3;
    const std::uint32_t after = static_cast<std::uint32_t>(data[ip] << 8 | data[ip + 1]);
    // RFC 1624, equation 3: ~(~checksum + ~before + after)
    std::uint32_t sum = (~static_cast<std::uint32_t>(data[ip + 10] << 8 | data[ip + 11]) & 0xFFFF) + (~before & 0xFFFF) + after;
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    const std::uint32_t checksum = ~sum & 0xFFFF;
    data[ip + 10] = static_cast<std::uint8_t>(checksum >> 8);
    data[ip + 11] = static_cast<std::uint8_t>(checksum);
    return true;
}

} // namespace netfold
