// A leaf, a spine or the one switch of a star: forwarding, multicast, aggregation, shared buffer and flow control.
//
// Node addresses: workers 0..W-1, then leaves, then spines. A frame whose destination is this switch is processed here,
// everything else is forwarded.
#ifndef NETFOLD_SWITCH_NODE_H
#define NETFOLD_SWITCH_NODE_H

#include "aggregation.h"
#include "fabric.h"
#include "switch.h"

#include <memory>
#include <vector>

namespace netfold
{

// Counts the workers that have reached a point of a block; the root switch of the block's tag asks it.
struct Barrier
{
    std::uint32_t tag{Aggregation::kNoTag};
    std::vector<bool> reached;
    std::uint32_t count{0};
    std::uint32_t completed{Aggregation::kNoTag}; // last tag that all have reached
};

struct Barriers
{
    Barrier sent;     // all uploads have left
    Barrier finished; // ... and all results have arrived
    std::vector<std::uint32_t> jobOf; // by tag, where switches count reports job by job
};

// Where frames are those of p4/programs, a switch counts the reports of those below it, for one job as switchgnn.p4 does:
// a leaf its workers, the root its leaves.
struct Reports
{
    std::uint64_t counting{0};       // the barrier; 0 before the first
    std::uint32_t count{0};          // how many have reached it
    std::vector<std::uint64_t> last; // the last one that each reached
};

class SwitchNode final : public Switch
{
  public:
    enum class Role
    {
        Leaf, // also the star's one switch
        Spine,
    };

    SwitchNode(Fabric& fabric, Aggregation& aggregation, Barriers& barriers, Role role, std::uint32_t index);

    void Connect(std::vector<Port*> egress, std::vector<Port*> upstream) override;
    void Receive(Frame& frame, std::uint32_t ingress, Ps now) override;

    std::uint16_t Address() const override
    {
        return m_address;
    }

    std::uint64_t TakePeak(std::size_t egress, Ps now) override
    {
        return m_egress[egress]->TakePeak(now);
    }

    std::uint64_t MaxBacklog(std::size_t egress) const override
    {
        return m_egress[egress]->MaxBacklog();
    }

    std::uint64_t TakeRecirculationPeak() override
    {
        const std::uint64_t peak = std::max(m_recirculationPeak, m_recirculationBytes);
        m_recirculationPeak = 0;
        return peak;
    }

  private:
    // Runs a callback of the switch when its time comes.
    class Timer final : public EventSource
    {
      public:
        Timer(SwitchNode& node, void (SwitchNode::*method)(Ps))
            : source(node.m_fabric.events.Add(this)),
              m_node(node),
              m_method(method)
        {
        }

        void Fire(Ps now) override
        {
            (m_node.*m_method)(now);
        }

        const std::uint32_t source;

      private:
        SwitchNode& m_node;
        void (SwitchNode::*m_method)(Ps);
    };

    struct Waiting
    {
        Frame frame;
        std::uint32_t ingress;
    };

    struct Emission
    {
        Ps at;
        Frame frame;
        std::uint32_t ingress;
    };

    struct Buffered
    {
        std::uint32_t ingress;
        std::uint32_t bytes;
    };

    std::uint32_t LeafOf(std::uint32_t worker) const
    {
        return worker / m_hostsPerLeaf;
    }

    std::uint16_t LeafAddress(std::uint32_t leaf) const
    {
        return static_cast<std::uint16_t>(m_fabric.config.workers + leaf);
    }

    // --- forwarding ---
    std::uint32_t Route(const Frame& frame);
    void Forward(const Frame& frame, std::uint32_t ingress, Ps now)
    {
        Send(frame, Route(frame), ingress, now);
    }
    void Send(const Frame& frame, std::uint32_t egress, std::uint32_t ingress, Ps now);
    void OnFinish(const Frame& frame, std::uint32_t ingress, Ps now);
    void Reach(Barrier& barrier, const Frame& frame, std::uint8_t flags, std::uint32_t ingress, Ps now);
    void OnComplete(const Frame& frame, std::uint32_t ingress, Ps now);
    void OnReport(const Frame& frame, std::uint32_t ingress, Ps now);
    void OnCompletion(const Frame& frame, std::uint32_t ingress, Ps now);
    Reports& ReportsOf(const Frame& frame);

    // --- aggregation ---
    void OnUpload(Frame& frame, std::uint32_t ingress, Ps now);
    void ReplicateUpload(const Frame& frame, std::uint32_t ingress, Ps now);
    void QueueForPasses(const Frame& frame, std::uint32_t ingress, Ps now);
    void ServePasses(Ps now);
    std::uint32_t LocalPasses(const Frame& frame) const;
    void Aggregate(const Frame& frame, std::uint32_t ingress, Ps now);
    void AddToReserved(const Frame& frame, std::uint32_t ingress, Ps now);
    void AddFirstCome(const Frame& frame, std::uint32_t ingress, Ps now);
    void OnPartial(const Frame& frame, std::uint32_t ingress, Ps now);
    void OnPresum(const Frame& frame, std::uint32_t ingress, Ps now);
    void AddValues(std::size_t index, const Frame& frame);
    void CompleteSlot(std::uint32_t slot, const Frame& last, std::uint32_t pass, std::uint32_t ingress, Ps now);
    void Emit(const Frame& frame, std::uint32_t pass, std::uint32_t ingress, Ps now);
    void EmitDue(Ps now);
    SlotState& Claim(std::uint32_t slot, std::size_t index);
    void TellBypassed(std::uint32_t slot, const Frame& last, std::uint32_t pass, std::uint32_t ingress, Ps now);
    // The entries of an uploaded slot that this leaf adds up: all, or with multicast those of its own rack's workers.
    std::pair<std::uint32_t, std::uint32_t> PassEntries(std::uint32_t slot) const;

    // --- shared buffer and flow control ---
    void Drain(Ps now);
    void CheckPause(std::uint32_t ingress, Ps now);
    void CheckResume(Ps now);
    void ApplyPause(Ps now);

    Fabric& m_fabric;
    Aggregation& m_aggregation;
    Barriers& m_barriers;
    std::vector<Reports> m_reports; // by job
    Role m_role;
    std::uint32_t m_index; // among leaves or among spines
    std::uint32_t m_hostsPerLeaf;
    std::uint16_t m_address;
    std::uint64_t m_sprayed{0};
    std::vector<Port*> m_upstream;

    // passes
    Ring<Waiting> m_waiting;
    Ring<Emission> m_emissions;
    Timer m_serve;
    Timer m_emit;
    Ps m_passPs{0};
    Ps m_recirculatePsPerByteQ8{0};
    Ps m_servedUntil{0};
    Ps m_stepPs{0}; // spacing of the passes of the frame in service
    std::uint64_t m_recirculationBytes{0};
    std::uint64_t m_recirculationPeak{0};

    // shared buffer
    std::vector<Ring<Buffered>> m_buffered; // per egress, in departure order
    std::vector<std::uint64_t> m_left;      // per egress, departures accounted for
    std::vector<std::uint64_t> m_ingressBytes;
    std::vector<bool> m_ingressPaused;
    std::uint64_t m_bufferBytes{0};
    std::uint32_t m_pausedCount{0};
    struct PauseOrder
    {
        Ps at;
        std::uint32_t ingress;
        bool pause;
    };
    Ring<PauseOrder> m_pauseOrders;
    Timer m_pauseTimer;
    Timer m_resumeTimer;
};

} // namespace netfold

#endif
