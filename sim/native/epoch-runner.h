// Takes every worker through the epoch: compute, propagate, compute, layer by layer, forward and backward.
//
// A worker's compute is a chain of parts. Part b of phase i needs bin b of the phase's propagation, lasts
// (post_i + pre_{i+1}) / bins and, when done, releases bin b of the next phase's sends. With one bin that is the usual
// receive-all, compute, send; with more it is G3's multi-level pipelining.
#ifndef NETFOLD_EPOCH_RUNNER_H
#define NETFOLD_EPOCH_RUNNER_H

#include "host.h"
#include "switch-node.h"

#include <functional>

namespace netfold
{

struct Phase
{
    std::int32_t propagation{-1}; // index into the propagations, -1: compute only
    std::span<const std::int64_t> preNs;
    std::span<const std::int64_t> postNs;
};

struct EpochRow
{
    Ps start{0};
    Ps commStart{-1};
    Ps commEnd{-1};
    Ps end{0};
};

struct BlockRow
{
    std::uint32_t phase;
    std::int32_t block;
    std::int32_t level;
    std::uint32_t vertices;
    Ps start;
    Ps end;
};

// An exchange as packets name it (p4/control/adjacency.py): one job for each plan, rounds are phases, and a block has two
// numbers, of which this is the first.
struct WireBlock
{
    std::uint32_t job;
    std::uint32_t round;
    std::uint32_t number;
};

class EpochRunner
{
  public:
    EpochRunner(Fabric& fabric, Aggregation& aggregation, std::vector<Propagation>& propagations, std::vector<Phase> phases);

    void Connect(std::vector<Host*> hosts, std::function<void()> onEpochDone);
    void Start(Ps now);

    // --- asked by hosts ---
    const Exchange& ExchangeOf(std::uint32_t tag) const
    {
        return *m_tags[tag].exchange;
    }

    // The (mutable) exchange of an in-network tag; started in the aggregation by the first worker that uploads.
    void EnsureStarted(std::uint32_t tag);
    HostBasedState* HostBased(std::uint32_t tag, bool create);
    void OnComplete(std::uint32_t worker, std::uint32_t tag, Ps now);
    void OnInNetworkDone(std::uint32_t worker, std::uint32_t tag, Ps now);
    void OnHostBasedBin(std::uint32_t worker, std::uint32_t tag, Ps now);
    std::uint32_t PhaseOf(std::uint32_t tag) const
    {
        return m_tags[tag].phase;
    }

    WireBlock BlockOf(std::uint32_t tag) const
    {
        const Tag& info = m_tags[tag];
        return {static_cast<std::uint32_t>(m_phases[info.phase].propagation) + 1, info.phase, 2 * info.position + 1};
    }

    // The exchange that a packet names; false when there is none.
    bool FindTag(const WireBlock& block, std::uint32_t& tag) const
    {
        if (block.round >= m_phases.size() || m_phases[block.round].propagation + 1 != static_cast<std::int64_t>(block.job))
        {
            return false;
        }
        tag = m_firstTag[block.round] + block.number / 2;
        return tag < m_tags.size() && m_tags[tag].phase == block.round;
    }

    // The plan that each exchange is of, from 0, by tag.
    std::vector<std::uint32_t> Jobs() const
    {
        std::vector<std::uint32_t> jobs;
        for (const Tag& info : m_tags)
        {
            jobs.push_back(static_cast<std::uint32_t>(m_phases[info.phase].propagation));
        }
        return jobs;
    }

    // Boundary index of the vertex whose values a frame carries, kNone when it carries none.
    std::uint32_t VertexOf(const Frame& frame) const;
    std::uint16_t RootOf(std::uint32_t tag) const;

    // Value mode: a worker's features and where its sums go, by tag.
    const std::int32_t* Features(std::uint32_t tag) const
    {
        return m_features[m_tags[tag].phase];
    }

    std::int64_t* Results(std::uint32_t tag)
    {
        return m_results[m_tags[tag].phase].data();
    }

    void SetFeatures(std::vector<const std::int32_t*> byPhase);

    bool CommunicationActive() const
    {
        return m_communicating > 0;
    }

    // Share of the epoch that is done, 0..1, for the progress bar.
    double Progress() const;

    const std::vector<EpochRow>& Rows() const // [phase * workers + worker]
    {
        return m_rows;
    }

    std::vector<BlockRow> BlockRows() const;

    const std::vector<std::vector<std::int64_t>>& AllResults() const
    {
        return m_results;
    }

    bool Finished() const
    {
        return m_workersDone == m_fabric.config.workers;
    }

    // Who has not finished what, for the error of a run that got stuck.
    std::string Stuck() const;

  private:
    struct Tag
    {
        std::uint32_t phase;
        Exchange* exchange;
        std::uint32_t position; // in the propagation
        Ps rto;
        Ps firstStart{kNever};
        Ps lastEnd{0};
    };

    class ComputeTimer final : public EventSource
    {
      public:
        ComputeTimer(EpochRunner& runner, std::uint32_t worker);
        void Fire(Ps now) override;
        std::uint32_t source;

      private:
        EpochRunner& m_runner;
        std::uint32_t m_worker;
    };

    struct WorkerState
    {
        std::int32_t phase{-1};      // whose compute parts run (-1: before the first)
        std::uint32_t partsDone{0};
        bool computing{false};
        std::uint32_t exchange{0};   // position within the propagation of the phase being communicated
        std::uint32_t lastComplete{Aggregation::kNoTag};
        bool waitsForComplete{false};
        std::uint32_t waitTag{0};
        std::vector<std::uint32_t> earlyBins; // bins received per phase
    };

    Ps LowerBound(const Exchange& exchange) const;
    std::uint32_t Bins() const
    {
        return m_fabric.config.pipeline_bins;
    }
    EpochRow& Row(std::int32_t phase, std::uint32_t worker)
    {
        return m_rows[static_cast<std::size_t>(phase) * m_fabric.config.workers + worker];
    }
    void TryPart(std::uint32_t worker, Ps now);
    void OnPartDone(std::uint32_t worker, Ps now);
    void Release(std::uint32_t worker, std::int32_t phase, std::uint32_t bin, Ps now);
    void StartExchange(std::uint32_t worker, std::uint32_t tag, Ps now);
    void NextExchange(std::uint32_t worker, std::uint32_t tag, Ps now);
    void PropagationDone(std::uint32_t worker, std::int32_t phase, Ps now);

    Fabric& m_fabric;
    Aggregation& m_aggregation;
    std::vector<Propagation>& m_propagations;
    std::vector<Phase> m_phases;
    std::vector<Host*> m_hosts;
    std::function<void()> m_onEpochDone;
    std::vector<Tag> m_tags;
    std::vector<std::uint32_t> m_firstTag; // per phase
    std::vector<WorkerState> m_workers;
    std::vector<std::unique_ptr<ComputeTimer>> m_timers;
    std::vector<std::unique_ptr<HostBasedState>> m_hostBased; // by tag
    std::vector<EpochRow> m_rows;
    std::vector<const std::int32_t*> m_features;
    std::vector<std::vector<std::int64_t>> m_results;
    std::uint32_t m_communicating{0};
    std::uint32_t m_workersDone{0};
    std::uint64_t m_partsDone{0};
};

} // namespace netfold

#endif
