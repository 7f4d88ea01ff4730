// One run: builds the topology, wires hosts and switches, drives ns-3's Simulator to the end of the epoch.
#ifndef NETFOLD_CLUSTER_H
#define NETFOLD_CLUSTER_H

#include "epoch-runner.h"
#include "p4/p4-switch-node.h"
#include "sampler.h"
#include "switch-node.h"
#include "wire-codec.h"

#include <chrono>
#include <functional>
#include <memory>

namespace netfold
{

struct ProgressReport
{
    Ps now;
    std::uint64_t hops;
    double share;
};

// ns-3's Simulator is one per process; so is a Cluster that runs.
class Cluster
{
  public:
    // `programs`: one for each switch, leaves first, where config.p4 is set; `layout`: of the bytes that frames then carry.
    Cluster(Config config,
            const std::vector<PlanArrays>& plans,
            std::vector<Phase> phases,
            const std::vector<P4Source>& programs = {},
            const WireLayout& layout = {});
    ~Cluster();

    Cluster(const Cluster&) = delete;
    Cluster& operator=(const Cluster&) = delete;

    void SetFeatures(std::vector<const std::int32_t*> byPhase)
    {
        m_runner->SetFeatures(std::move(byPhase));
    }

    // Runs the epoch; `report` is called about four times a second and may throw to stop. Throws std::runtime_error when
    // the run gets stuck or passes the time limit.
    void Run(const std::function<void(const ProgressReport&)>& report);

    const Counters& Totals() const
    {
        return m_fabric->counters;
    }

    const Config& Settings() const
    {
        return m_config;
    }

    EpochRunner& Runner()
    {
        return *m_runner;
    }

    const Sampler& Samples() const
    {
        return *m_sampler;
    }

    const std::vector<PacketSample>& Packets() const
    {
        return m_fabric->samples;
    }

    const std::vector<Switch*>& Switches() const
    {
        return m_switchList;
    }

    const std::vector<std::unique_ptr<Port>>& Links() const
    {
        return m_ports;
    }

    std::uint64_t Events() const
    {
        return m_events;
    }

    Ps End() const
    {
        return m_end;
    }

    std::uint64_t MaxPortBacklog() const;
    std::size_t QueueMemoryBytes() const;

    std::size_t LivePayloads() const
    {
        return m_fabric->values.Live() + (m_codec ? m_codec->pool.Live() : 0);
    }

    const std::vector<P4SwitchNode*>& P4Switches() const
    {
        return m_p4Switches;
    }

  private:
    void BuildTopology(const std::vector<P4Source>& programs);
    Port* AddPort(LinkClass linkClass, double rateBps, Node* owner, Node* peer, std::uint32_t peerIngress);
    void Watch();

    Config m_config;
    std::vector<Propagation> m_propagations;
    ns3::Ptr<LaneSimulatorImpl> m_lane;
    std::unique_ptr<Fabric> m_fabric;
    std::unique_ptr<Aggregation> m_aggregation;
    Barriers m_barriers;
    std::unique_ptr<EpochRunner> m_runner;
    std::vector<std::unique_ptr<Host>> m_hosts;
    std::vector<std::unique_ptr<Switch>> m_switches;
    std::vector<Switch*> m_switchList;
    std::vector<P4SwitchNode*> m_p4Switches;
    std::unique_ptr<WireCodec> m_codec;
    std::vector<std::unique_ptr<Port>> m_ports;
    std::unique_ptr<Sampler> m_sampler;
    std::function<void(const ProgressReport&)> m_report;
    std::uint64_t m_events{0};
    std::uint64_t m_watches{0};
    std::chrono::steady_clock::time_point m_lastWatch;
    Ps m_watchStep{0};
    Ps m_end{0};
};

} // namespace netfold

#endif
