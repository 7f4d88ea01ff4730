#include "cluster.h"

#include "ns3/simulator.h"

#include <chrono>
#include <stdexcept>

namespace netfold
{

namespace
{

std::uint32_t
HostValues(const Config& config)
{
    constexpr std::uint32_t ethernet = 18; // header and FCS: the MTU counts neither
    return (config.mtu_bytes + ethernet - config.frame_overhead_bytes) / 4;
}

std::vector<Propagation>
Propagations(const Config& config, const std::vector<PlanArrays>& plans)
{
    std::vector<Propagation> propagations;
    propagations.reserve(plans.size());
    for (const auto& plan : plans)
    {
        propagations.push_back(BuildPropagation(plan,
                                                HostValues(config),
                                                config.pipeline_bins,
                                                config.first_come || config.multicast_home,
                                                config.presum));
    }
    return propagations;
}

} // namespace

Cluster::Cluster(Config config,
                 const std::vector<PlanArrays>& plans,
                 std::vector<Phase> phases,
                 const std::vector<P4Source>& programs,
                 const WireLayout& layout)
    : m_config(std::move(config)),
      m_propagations(Propagations(m_config, plans))
{
    ns3::Simulator::Destroy();
    if (!m_config.stock_events)
    {
        m_lane = ns3::CreateObject<LaneSimulatorImpl>();
        ns3::Simulator::SetImplementation(m_lane);
    }
    std::uint32_t stride = m_config.values_per_packet;
    for (const auto& propagation : m_propagations)
    {
        stride = std::max({stride, HostValues(m_config), propagation.plan.width});
    }
    m_fabric = std::make_unique<Fabric>(m_config, ns3::PeekPointer(m_lane), stride);
    m_aggregation = std::make_unique<Aggregation>(m_config, m_config.workers / m_config.leaves);
    m_runner = std::make_unique<EpochRunner>(*m_fabric, *m_aggregation, m_propagations, std::move(phases));
    if (m_config.p4)
    {
        m_codec = std::make_unique<WireCodec>(layout, *m_fabric);
        m_codec->Connect(*m_runner);
        m_fabric->wire = m_codec.get();
    }
    m_barriers.jobOf = m_runner->Jobs();
    BuildTopology(programs);
}

Cluster::~Cluster()
{
    ns3::Simulator::Destroy();
}

Port*
Cluster::AddPort(LinkClass linkClass, double rateBps, Node* owner, Node* peer, std::uint32_t peerIngress)
{
    // The far end's pipeline latency is a constant after the wire; it is part of the link so that a hop stays one event.
    const bool toSwitch = linkClass != LinkClass::Down;
    const Ps delay = (m_config.link_delay_ns + (toSwitch ? m_config.switch_latency_ns : 0)) * kPsPerNs;
    m_ports.push_back(std::make_unique<Port>(*m_fabric, linkClass, rateBps, delay, owner, peer, peerIngress));
    if (linkClass != LinkClass::Up && m_config.dcqcn)
    {
        const bool fabricLink = linkClass == LinkClass::Fabric;
        m_ports.back()->SetEcn(fabricLink ? m_config.ecn_fabric_kmin_bytes : m_config.ecn_kmin_bytes,
                               fabricLink ? m_config.ecn_fabric_kmax_bytes : m_config.ecn_kmax_bytes);
    }
    return m_ports.back().get();
}

void
Cluster::BuildTopology(const std::vector<P4Source>& programs)
{
    const std::uint32_t workers = m_config.workers;
    const std::uint32_t hostsPerLeaf = workers / m_config.leaves;
    std::vector<Host*> hosts;
    for (std::uint32_t worker = 0; worker < workers; ++worker)
    {
        m_hosts.push_back(std::make_unique<Host>(*m_fabric, *m_aggregation, *m_runner, worker));
        hosts.push_back(m_hosts.back().get());
    }
    const auto addSwitch = [&](SwitchNode::Role role, std::uint32_t index) -> Switch* {
        if (m_config.p4)
        {
            const std::size_t number = m_switches.size();
            auto node = std::make_unique<P4SwitchNode>(
                *m_fabric, *m_codec, programs.at(number), static_cast<std::uint16_t>(workers + number));
            m_p4Switches.push_back(node.get());
            m_switches.push_back(std::move(node));
        }
        else
        {
            m_switches.push_back(std::make_unique<SwitchNode>(*m_fabric, *m_aggregation, m_barriers, role, index));
        }
        m_switchList.push_back(m_switches.back().get());
        return m_switches.back().get();
    };
    std::vector<Switch*> leaves;
    std::vector<Switch*> spines;
    for (std::uint32_t leaf = 0; leaf < m_config.leaves; ++leaf)
    {
        leaves.push_back(addSwitch(SwitchNode::Role::Leaf, leaf));
    }
    for (std::uint32_t spine = 0; spine < m_config.spines; ++spine)
    {
        spines.push_back(addSwitch(SwitchNode::Role::Spine, spine));
    }

    std::vector<std::vector<Port*>> leafEgress(leaves.size());
    std::vector<std::vector<Port*>> leafUpstream(leaves.size());
    std::vector<std::vector<Port*>> spineEgress(spines.size());
    std::vector<std::vector<Port*>> spineUpstream(spines.size());
    for (std::uint32_t worker = 0; worker < workers; ++worker)
    {
        const std::uint32_t leaf = worker / hostsPerLeaf;
        Port* up = AddPort(LinkClass::Up, m_config.host_link_bps, hosts[worker], leaves[leaf], worker % hostsPerLeaf);
        hosts[worker]->Connect(up);
        leafUpstream[leaf].push_back(up);
        leafEgress[leaf].push_back(AddPort(LinkClass::Down, m_config.host_link_bps, leaves[leaf], hosts[worker], 0));
    }
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
    {
        for (std::uint32_t spine = 0; spine < spines.size(); ++spine)
        {
            Port* up = AddPort(LinkClass::Fabric, m_config.fabric_link_bps, leaves[leaf], spines[spine], leaf);
            Port* down =
                AddPort(LinkClass::Fabric, m_config.fabric_link_bps, spines[spine], leaves[leaf], hostsPerLeaf + spine);
            leafEgress[leaf].push_back(up);
            leafUpstream[leaf].push_back(down);
            spineEgress[spine].push_back(down);
            spineUpstream[spine].push_back(up);
        }
    }
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
    {
        leaves[leaf]->Connect(std::move(leafEgress[leaf]), std::move(leafUpstream[leaf]));
    }
    for (std::uint32_t spine = 0; spine < spines.size(); ++spine)
    {
        spines[spine]->Connect(std::move(spineEgress[spine]), std::move(spineUpstream[spine]));
    }

    m_runner->Connect(hosts, [this] {
        m_end = m_fabric->events.Now();
        ns3::Simulator::Stop();
    });
    m_sampler = std::make_unique<Sampler>(*m_fabric, m_switchList, m_config.sample_interval_ns * kPsPerNs, [this] {
        return m_runner->CommunicationActive();
    });
}

// An ordinary ns-3 event that looks at the wall clock now and then: reports progress, and ends a run that takes too long.
void
Cluster::Watch()
{
    using Clock = std::chrono::steady_clock;
    ++m_watches;
    const Ps now = m_fabric->events.Now();
    const Clock::time_point wall = Clock::now();
    const double elapsed = std::chrono::duration<double>(wall - m_lastWatch).count();
    m_lastWatch = wall;
    if (m_config.time_limit_ns > 0 && now > m_config.time_limit_ns * kPsPerNs)
    {
        throw std::runtime_error("simulated time passed the limit; " + m_runner->Stuck());
    }
    if (m_report)
    {
        m_report({now, m_fabric->counters.hops, m_runner->Progress()});
    }
    // aim at a look every quarter of a second of wall time
    const double factor = std::clamp(0.25 / std::max(elapsed, 1e-6), 0.25, 4.0);
    m_watchStep = std::clamp<Ps>(static_cast<Ps>(static_cast<double>(m_watchStep) * factor), 1000 * kPsPerNs, 1000000000 * kPsPerNs);
    ns3::Simulator::Schedule(ns3::Time(m_watchStep), &Cluster::Watch, this);
}

void
Cluster::Run(const std::function<void(const ProgressReport&)>& report)
{
    m_report = report;
    m_watchStep = 1000 * kPsPerNs;
    m_lastWatch = std::chrono::steady_clock::now();
    ns3::Simulator::Schedule(ns3::Time(m_watchStep), &Cluster::Watch, this);
    m_sampler->Start(0);
    for (auto& host : m_hosts)
    {
        host->StartBackground(0);
    }
    m_runner->Start(0);
    ns3::Simulator::Run();
    m_events = ns3::Simulator::GetEventCount() - m_watches; // how often one looks depends on the machine
    if (!m_runner->Finished())
    {
        throw std::runtime_error("the simulation ran out of events before the epoch ended; " + m_runner->Stuck());
    }
    m_sampler->TakeSample(m_end);
}

std::uint64_t
Cluster::MaxPortBacklog() const
{
    std::uint64_t most = 0;
    for (const Switch* node : m_switchList)
    {
        for (std::size_t port = 0; port < node->Ports().size(); ++port)
        {
            most = std::max(most, node->MaxBacklog(port));
        }
    }
    return most;
}

std::size_t
Cluster::QueueMemoryBytes() const
{
    std::size_t bytes = 0;
    for (const auto& port : m_ports)
    {
        bytes += port->QueueMemoryBytes();
    }
    return bytes;
}

} // namespace netfold
