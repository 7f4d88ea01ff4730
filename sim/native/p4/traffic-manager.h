// A P4 switch without its cables: a compiled program's passes between the queues of a traffic manager, on the caller's
// clock. Knows neither the cluster's frames nor ns-3's packets: bytes come in by Receive() and leave by Output::Transmit().
//
//     Events events(lane or nullptr);               // nullptr: plain Simulator::Schedule, for stock ns-3 networks
//     P4TrafficManager switch(events, program, output, settings);
//     switch.SetPort(0, {.rateBps = 100e9, .wireOverheadBytes = 24});
//     switch.Receive(port, data, bytes, source, now);       // when a packet's last bit is in
//
// A packet's way, with what the settings say about it (every time in picoseconds):
//
//   Receive ── waits for the pipeline (passPs between two packets) ── parser + ingress ── ingressLatency ──┐
//      ▲                                                                                                   │
//      │ resubmitted: at once                                                                              ▼
//      └────────────────────────────────────── egress queues, eight priorities for each port, at the port's rate
//      ▲                                                                                                   │
//      │ recirculated: its last bit out of the port                                                        ▼
//      └───────────────────────────────── egress + deparser, when the packet leaves its queue ── egressLatency ── Transmit
//
// - Multicast replicas and clones enter the egress queues of their ports in the order that the program's control plane
//   gave them, at the time at which the pass that made them ends.
// - A port sends one packet at a time. It takes the next from its queues (strict priority, the higher first) when the last
//   bit of the one before has left; at that moment egress runs, with enq_timestamp, enq_qdepth, deq_timedelta and deq_qdepth
//   of that queue (depths in packets of its priority, the one in service not counted, as in BMv2). An egress that drops
//   leaves the port free. A rate of 0 lets everything through at once.
// - Where links have queues of their own (Output::QueuesAhead()) and this switch's have no limit, packets whose egress
//   cannot tell when it runs (program.h, PassAhead) pass it when they enter the queue. They go to the link then, with the
//   time at which they would leave; queue depth, backlog and marks are those that they would meet and leave otherwise.
// - A port that SetPort() was not called for leads nowhere. Packets that its egress recirculates pass through it at
//   `recirculation`'s rate and depth; others are dropped and counted. Where passes take no time and that port has no rate,
//   the program takes a packet round and round by itself (program.h, PassAtOnce): what it makes is handed over at the end.
// - ECN: whether a packet is to be marked is decided when it enters a queue, by the port's backlog in bytes (DCQCN's ramp:
//   nothing up to kmin, pmax before kmax, all from there on); the mark is made in the IPv4 header of the bytes that leave,
//   if that is ECN-capable, and its checksum is kept right (RFC 1624).
// - Nothing goes on for ever. A packet that went round `maxRounds` times, one that gets more than `maxRounds` passes or
//   `maxCopies` copies while no time passes, one that loops in a pass until the engine stops it (2^20 steps; 100,000 states
//   of a parser), one that grows beyond 64 KiB, and more than `maxWaiting` packets in one port's queues or before the
//   pipeline end the run through Output::Stopped(), with the program, the port and the reason.
#ifndef NETFOLD_P4_TRAFFIC_MANAGER_H
#define NETFOLD_P4_TRAFFIC_MANAGER_H

#include "../events.h"
#include "../ring.h"
#include "program.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace netfold
{

struct P4PortSettings
{
    double rateBps{0};                  // of the wire; 0: packets leave at once
    std::uint32_t wireOverheadBytes{0}; // FCS, preamble and gap: time on the wire, and part of the backlog
    std::uint32_t depthPackets{0};      // of each priority's queue; one more is dropped. 0: unlimited
    double ecnKminBytes{0};
    double ecnKmaxBytes{0}; // 0: no marking
    double ecnPmax{0};
};

struct P4SwitchSettings
{
    std::string name;    // of the node, for messages: "leaf0"
    std::string program; // its file, for messages: "switchgnn.p4"
    Ps passPs{0};         // between two packets into the pipeline, new and recirculated ones alike; 0: no limit
    Ps ingressLatency{0}; // parser and ingress
    Ps egressLatency{0};  // egress and deparser
    P4PortSettings recirculation;
    std::uint64_t bufferBytes{0};   // all queues together; a packet that finds no room is dropped. 0: unlimited
    std::uint32_t fcsBytes{0};      // per packet, counted against the buffer
    std::uint32_t maxRounds{1u << 20};
    std::size_t maxCopies{1u << 16};
    std::size_t maxWaiting{1u << 22}; // for one port, or for the pipeline
    std::uint64_t seed{1};
};

struct P4PortCounters
{
    std::uint64_t packets{0}; // transmitted, or recirculated out of it
    std::uint64_t bytes{0};
    std::uint64_t drops{0}; // full queue or buffer, or a port that leads nowhere
    std::uint64_t marks{0}; // ECN
    std::uint64_t maxBacklogBytes{0};
};

// Packets that went no further, by what let go of them.
struct P4Drops
{
    std::uint64_t program{0}; // a pass left nothing of it: mark_to_drop(), a group or session without members
    std::uint64_t queue{0};   // full queue or buffer, of any port
    std::uint64_t nowhere{0}; // sent to a port without a link
};

// The program would never end.
struct P4Stopped : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

class P4Output
{
  public:
    virtual ~P4Output() = default;

    // The packet's first bit goes on the wire of `port` at `at`: now, or later if QueuesAhead(). The bytes are the
    // callee's until it returns.
    virtual void Transmit(std::uint32_t port, std::uint8_t* data, std::size_t bytes, std::uint32_t source, Ps at) = 0;

    // Whether the link takes packets before they leave, one behind the other.
    virtual bool QueuesAhead() const
    {
        return false;
    }

    // A packet dropped before it could leave; `source` as given to Receive().
    virtual void Dropped(std::uint32_t port, std::uint32_t source, Ps now)
    {
    }

    // The program would never end. Throws P4Stopped unless overridden; when it returns, the packet is dropped and
    // counted in Stopped().
    virtual void Stopped(const std::string& reason);
};

class P4TrafficManager
{
  public:
    // `random` draws ECN marks: the cluster shares one among all ports, so that runs can be compared. nullptr: its own.
    P4TrafficManager(Events& events, P4Program& program, P4Output& output, P4SwitchSettings settings, Random* random = nullptr);
    ~P4TrafficManager();

    P4TrafficManager(const P4TrafficManager&) = delete;
    P4TrafficManager& operator=(const P4TrafficManager&) = delete;

    void SetPort(std::uint32_t port, const P4PortSettings& settings);
    void Receive(std::uint32_t port, const std::uint8_t* data, std::size_t bytes, std::uint32_t source, Ps now);

    // Bytes waiting in or leaving a port's queues, wire overhead included.
    std::uint64_t Backlog(std::uint32_t port, Ps now) const;
    // Largest backlog since the last call.
    std::uint64_t TakePeak(std::uint32_t port, Ps now);
    P4PortCounters Port(std::uint32_t port) const;
    // The most bytes that waited for the pipeline or went round since the last call.
    std::uint64_t TakeRecirculationPeak();

    std::uint64_t Recirculated() const;

    const P4Drops& Drops() const
    {
        return m_drops;
    }

    std::uint64_t Stopped() const
    {
        return m_stopped;
    }

    P4Program& Program()
    {
        return m_program;
    }

  private:
    struct Waiting // in an egress queue
    {
        std::uint64_t item;
        Ps enqueued;
        Ps serialisation; // as its bytes were when it entered
        std::uint32_t enqueueDepth;
        std::uint32_t bytes;
        std::uint32_t rounds;
        std::uint32_t source;
        bool mark;
    };

    struct Round // to the parser
    {
        std::uint64_t item;   // kNew: a new packet, whose bytes are in `buffer`
        std::uint32_t buffer;
        std::uint32_t port;
        std::uint32_t bytes;
        std::uint32_t rounds;
        std::uint32_t source;
    };

    struct Made // by a pass, on its way to where it waits for the next
    {
        P4Descriptor descriptor;
        Ps at;
        std::uint32_t rounds;
        std::uint32_t source;
    };

    struct Leaving // through egress, on its way to the wire
    {
        Ps at;
        std::uint32_t buffer;
        std::uint32_t port;
        std::uint32_t bytes;
        std::uint32_t source;
    };

    class EgressPort;
    class Alarm;

    static constexpr std::uint64_t kNew = ~0ull;

    EgressPort& PortAt(std::uint32_t port);
    void Admit(const Round& round, Ps now);
    void Settle(Ps now);
    void Abandon(const Round& round);
    void RunIngress(const Round& round, Ps now);
    void Take(std::span<const P4Descriptor> made, Ps at, std::uint32_t rounds, std::uint32_t source);
    void Place(const Made& made, Ps now);
    void Enqueue(const Made& made, Ps now);
    void ServePort(EgressPort& port, Ps now);
    void RunEgress(EgressPort& port, const Waiting& waiting, std::uint32_t depth, Ps now);
    void SendOutput(const EgressPort* from, bool mark, Ps now);
    void Send(EgressPort& port, const P4Packet& packet, bool mark, Ps now);
    void SendAhead(EgressPort& port, const P4Packet& packet, Ps now);
    bool IsOverfull(const EgressPort& port, std::size_t ahead, Ps now);
    bool Enter(EgressPort& port, std::uint32_t bytes, Ps now);
    bool RoundsTakeNoTime() const;
    void PipelineFree(Ps now);
    void MadeDue(Ps now);
    void LeavingDue(Ps now);
    void PortFree(EgressPort& port, Ps now);
    bool HasRoom(std::uint32_t bytes, Ps now);
    void Stop(const std::string& what, std::uint32_t port, Ps now);
    bool CheckStopped(std::uint32_t port, Ps now);
    std::uint32_t Keep(const std::uint8_t* data, std::size_t bytes);

    Events& m_events;
    P4Program& m_program;
    P4Output& m_output;
    P4SwitchSettings m_settings;
    Random m_ownRandom;
    Random& m_random;
    std::vector<std::unique_ptr<EgressPort>> m_ports; // by number, made at first use
    Ring<Round> m_pipeline;                           // wait for the pipeline, which has a rate
    Ring<Round> m_rounds;                             // have their pass before time moves on
    Ring<Made> m_placed;                              // ... and these their place
    Ring<Made> m_made;                                // still in ingress, in order of `at`
    Ring<Leaving> m_leaving;                          // still in egress, in order of `at`
    std::unique_ptr<Alarm> m_pipelineAlarm;
    std::unique_ptr<Alarm> m_madeAlarm;
    std::unique_ptr<Alarm> m_leavingAlarm;
    std::vector<std::vector<std::uint8_t>> m_buffers;
    std::vector<std::uint32_t> m_freeBuffers;
    Ps m_pipelineFree{0};
    std::uint64_t m_buffered{0};
    std::uint64_t m_roundBytes{0};
    std::uint64_t m_roundPeak{0};
    std::uint64_t m_recirculated{0};
    std::uint64_t m_stopped{0};
    P4Statistics m_seen{};
    P4Drops m_drops;
    bool m_settling{false};
};

// Congestion experienced into the IPv4 header of an Ethernet frame; false where there is none that can carry it.
bool MarkCongestion(std::uint8_t* data, std::size_t bytes);

} // namespace netfold

#endif
