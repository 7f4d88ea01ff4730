// A worker's network side: flows, pacing, sending and receiving of exchanges, timeouts and pulls.
//
// The transmitter works in bursts of `tx_burst` frames, as a DPDK loop does: it hands a burst to the link and comes back when
// the link has sent it. Flows are served round robin; control frames go first.
#ifndef NETFOLD_HOST_H
#define NETFOLD_HOST_H

#include "aggregation.h"
#include "dcqcn.h"
#include "fabric.h"

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

namespace netfold
{

class EpochRunner;

// Receiving state of one host-based exchange, all workers together.
struct HostBasedState
{
    HostBasedState(std::uint32_t tag, const Exchange& exchange, std::uint32_t workers);

    // A flow's packets are neighbours in `received`, so that a receiver works in few cache lines per sender.
    bool Mark(std::uint64_t position, std::uint32_t chunk)
    {
        const std::uint64_t index = position * exchange.HostChunks() + chunk;
        const std::uint64_t bit = 1ull << (index & 63);
        const bool fresh = !(received[index >> 6] & bit);
        received[index >> 6] |= bit;
        return fresh;
    }

    bool IsMarked(std::uint64_t position, std::uint32_t chunk) const
    {
        const std::uint64_t index = position * exchange.HostChunks() + chunk;
        return (received[index >> 6] >> (index & 63)) & 1;
    }

    std::uint32_t tag;
    const Exchange& exchange;
    std::vector<std::uint64_t> received; // [position in the flows * chunks + chunk] bits
    std::vector<std::uint64_t> pending;  // [worker * bins + bin] packets' worth of (entry, chunk)
    std::uint32_t workersDone{0};
};

class Host final : public Node, public EventSource
{
  public:
    Host(Fabric& fabric, Aggregation& aggregation, EpochRunner& runner, std::uint32_t worker);

    void Connect(Port* uplink)
    {
        m_uplink = uplink;
    }

    // --- told by the epoch ---
    void StartInNetwork(std::uint32_t tag, Ps now);
    // More of a host-based exchange may be sent: everything up to and including pipeline bin `bin`.
    void ReleaseHostBased(std::uint32_t tag, const Exchange& exchange, std::uint32_t bin, Ps now);
    // The worker waits for this exchange from now on, until it has all of it. With pipelined bins it can wait for several;
    // timeouts are measured for the oldest.
    void Await(std::uint32_t tag, Ps rto, Ps now);
    void Received(std::uint32_t tag, Ps now);
    void StartBackground(Ps now);

    void Receive(Frame& frame, std::uint32_t ingress, Ps now) override;
    void PortResumed(Ps now) override;
    void Fire(Ps now) override; // the transmitter

    std::uint16_t Address() const override
    {
        return static_cast<std::uint16_t>(m_worker);
    }

  private:
    struct Segment // released part of a host-based exchange towards one receiver
    {
        std::uint32_t tag;
        std::uint64_t next;
        std::uint64_t released;
        std::uint64_t end;
        std::uint32_t chunk;
    };

    struct Reply
    {
        std::uint32_t tag;
        std::uint32_t entry;
        std::uint32_t chunk;
    };

    struct Flow
    {
        std::uint16_t destination{0};
        bool active{false};
        std::uint32_t id{0};
        Ps next{0}; // earliest time of the next frame; while active, m_active has it
        Dcqcn rate;
        Ring<Segment> segments;
        Ring<Reply> replies;
        std::uint64_t backgroundBytes{0}; // left to send (background flows)
    };

    struct Active // what the round-robin scan reads, side by side
    {
        Ps next;
        Flow* flow;
    };

    // The upload flow is one more flow of this host, towards the switch.
    struct Uploads
    {
        std::uint32_t tag{Aggregation::kNoTag};
        std::size_t next{0};
        std::uint32_t chunk{0};
        std::vector<std::uint32_t> slots; // in upload order; with presum, remote slots this worker contributes to
        bool done{true};
    };

    class Clock final : public EventSource
    {
      public:
        Clock(Host& host, void (Host::*method)(Ps))
            : source(host.m_fabric.events.Add(this)),
              m_host(host),
              m_method(method)
        {
        }

        void Fire(Ps now) override
        {
            (m_host.*m_method)(now);
        }

        const std::uint32_t source;

      private:
        Host& m_host;
        void (Host::*m_method)(Ps);
    };

    Flow& FlowTo(std::uint32_t worker);
    void Activate(Flow& flow, Ps now);
    void Kick(Ps now);
    bool HasData(Flow& flow) const;
    bool SendNext(Ps now);
    void Produce(Flow& flow, Frame& frame);
    void ProduceUpload(Frame& frame);
    void ProduceReply(const Reply& reply, Frame& frame);
    void ProduceSegment(Flow& flow, Frame& frame);
    void ProduceBackground(Flow& flow, Frame& frame);
    void Transmit(Frame frame, Ps now);
    void SendControl(Kind kind, std::uint16_t destination, std::uint32_t item, std::uint32_t tag, std::uint8_t flags, Ps now);

    std::uint32_t FillVertex(std::uint32_t tag, std::uint32_t slot, std::uint32_t chunk, std::uint32_t perPacket);
    std::uint32_t FillPresum(std::uint32_t slot, std::uint32_t worker, std::uint32_t chunk);

    void OnResult(const Frame& frame, Ps now);
    void OnBypassedSum(const Frame& frame, Ps now);
    void AddToResult(std::uint32_t slot, std::uint32_t chunk, std::uint32_t payload);
    void AddToCovered(const Frame& frame);
    void CompleteFromRacks(std::uint32_t slot, std::uint32_t chunk);
    void OnRawInNetwork(const Frame& frame, Ps now);
    void OnRawHostBased(const Frame& frame, HostBasedState& state, Ps now);
    void OnPull(const Frame& frame, Ps now);
    void OnCnp(const Frame& frame, Ps now);
    void EchoCongestion(const Frame& frame, Ps now);
    void AddRawContribution(std::uint32_t rack, std::uint32_t slot, const Frame& frame);
    void AfterInNetworkProgress(Ps now);
    void FinishIfDone(Ps now);
    std::uint16_t ReportTo(std::uint32_t tag) const;

    void OnTimer(Ps now);
    void PullMissing(std::uint32_t tag);
    void PullMissingInNetwork(std::map<std::uint16_t, std::vector<PullItem>>& missing);
    void PullMissingHostBased(std::uint32_t tag, std::map<std::uint16_t, std::vector<PullItem>>& missing);
    void NextBackgroundFlow(Ps now);

    Fabric& m_fabric;
    Aggregation& m_aggregation;
    EpochRunner& m_runner;
    std::uint32_t m_worker;
    std::uint32_t m_source;
    Port* m_uplink{nullptr};

    // transmit
    Ring<Frame> m_control;
    Flow m_uploadFlow;
    Uploads m_uploads;
    std::vector<std::unique_ptr<Flow>> m_flows; // by receiving worker
    std::unordered_map<std::uint32_t, std::unique_ptr<Flow>> m_background;
    std::vector<Active> m_active;
    std::size_t m_turn{0};
    Ps m_armedAt{kNever};

    // receive
    std::vector<Ps> m_lastCnp; // per sender
    bool m_sentReported{false}; // told the root that all uploads of the block have left
    bool m_finishSent{false};   // ... and that all results have arrived
    bool m_allSent{false};      // the root said that every worker's uploads have left
    std::uint32_t m_releasedTag{Aggregation::kNoTag}; // latest host-based exchange of which something was released

    // timeout
    Clock m_timer;
    struct Awaited
    {
        std::uint32_t tag;
        Ps rto;
    };
    std::deque<Awaited> m_awaited; // ascending in the tag
    std::uint32_t m_backoff{0};
    Ps m_lastProgress{0};

    // background
    Clock m_backgroundClock;
    Random m_backgroundRandom;
    bool m_backgroundOn{false};
    std::uint32_t m_nextBackgroundId{0};
};

} // namespace netfold

#endif
