#include "network.h"

#include "../lane-simulator-impl.h"

#include "ns3/arp-cache.h"
#include "ns3/arp-l3-protocol.h"
#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/error-model.h"
#include "ns3/global-value.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/pointer.h"
#include "ns3/queue-size.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/uinteger.h"

#include <map>
#include <stdexcept>

namespace netfold
{

using namespace ns3;

namespace
{

constexpr int kReports = 200;             // of progress, in a run
constexpr std::uint32_t kTcpHeaders = 40; // IPv4 and TCP

Network* g_current = nullptr; // whose events the simulator holds

Mac48Address
MacOf(std::uint64_t number)
{
    std::uint8_t bytes[6];
    for (int i = 0; i < 6; ++i)
    {
        bytes[i] = static_cast<std::uint8_t>(number >> (40 - 8 * i));
    }
    Mac48Address address;
    address.CopyFrom(bytes);
    return address;
}

// ns-3's error models, one for each fault of a link; counts what they damage.
class LinkFaults : public ErrorModel
{
  public:
    std::uint64_t* lost{nullptr};

    void Add(const FaultConfig& fault)
    {
        Ptr<ErrorModel> model;
        if (fault.mean_burst > 1)
        {
            const auto bursts = CreateObject<BurstErrorModel>();
            // A burst begins with probability p at a frame outside of one: loss = p b / (p b + 1 - p).
            const double b = fault.mean_burst;
            bursts->SetAttribute("ErrorRate", DoubleValue(fault.loss / (b - fault.loss * (b - 1))));
            bursts->SetAttribute("BurstSize",
                                 StringValue("ns3::UniformRandomVariable[Min=1|Max=" + std::to_string(2 * b - 1) + "]"));
            model = bursts;
        }
        else
        {
            const auto single = CreateObject<RateErrorModel>();
            single->SetAttribute("ErrorUnit", EnumValue(RateErrorModel::ERROR_UNIT_PACKET));
            single->SetAttribute("ErrorRate", DoubleValue(fault.loss));
            model = single;
        }
        m_models.push_back(model);
        if (fault.from_ns > 0)
        {
            model->Disable();
            Simulator::Schedule(NanoSeconds(fault.from_ns), &ErrorModel::Enable, model);
        }
        if (fault.until_ns > 0)
        {
            Simulator::Schedule(NanoSeconds(fault.until_ns), &ErrorModel::Disable, model);
        }
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        bool damaged = false;
        for (const auto& model : m_models)
        {
            damaged |= model->IsCorrupt(packet);
        }
        *lost += damaged;
        return damaged;
    }

    void DoReset() override
    {
    }

    std::vector<Ptr<ErrorModel>> m_models;
};

} // namespace

Network::Network(NetworkConfig config)
    : m_config(std::move(config)),
      m_lost(m_config.links.size())
{
    if (g_current)
    {
        g_current->Close(); // a stopped run that Python has not let go of yet
    }
    Simulator::Destroy(); // whatever another model of this process left
    RngSeedManager::SetSeed(m_config.seed);
    RngSeedManager::SetRun(1);
    RngSeedManager::ResetNextStreamIndex();
    Simulator::SetImplementation(CreateObject<LaneSimulatorImpl>());
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true)); // programs verify them
    SetDefaults();
    MakeNodes();
    MakeLinks();
    MakeFaults();
    MakeFlows();
    g_current = this;
}

Network::~Network()
{
    if (g_current == this)
    {
        Close();
    }
}

void
Network::Close()
{
    g_current = nullptr;
    m_flows.clear();
    m_switches.clear();
    m_ends.clear();
    m_nodes.clear();
    Simulator::Destroy();
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(false));
}

// TCP takes these when a socket is made, which its applications do by themselves.
void
Network::SetDefaults() const
{
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(m_config.mtu_bytes - kTcpHeaders));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(m_config.tcp_buffer_bytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(m_config.tcp_buffer_bytes));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(m_config.tcp_min_rto_ns)));
    // ns-3's timestamps count milliseconds, and a round trip here takes microseconds.
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", EnumValue(m_config.tcp_ecn ? TcpSocketState::On : TcpSocketState::Off));
}

void
Network::MakeNodes()
{
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    Ipv4StaticRoutingHelper routing;
    stack.SetRoutingHelper(routing);
    const TypeId tcp = TypeId::LookupByName(m_config.tcp);
    for (std::size_t i = 0; i < m_config.hosts.size(); ++i)
    {
        const auto node = CreateObject<Node>();
        stack.Install(node);
        node->GetObject<Ipv4>()->SetAttribute("IpForward", BooleanValue(false));
        // ns-3 waits up to 10 ms before it asks, for the sake of wireless networks.
        node->GetObject<ArpL3Protocol>()->SetAttribute("RequestJitter",
                                                       StringValue("ns3::ConstantRandomVariable[Constant=0]"));
        node->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(tcp));
        m_nodes.push_back(node);
    }
    for (const SwitchConfig& config : m_config.switches)
    {
        const auto node = CreateObject<Node>();
        const auto made = CreateObject<P4Switch>();
        made->SetAttribute("Name", StringValue(config.name));
        made->SetAttribute("QueueSize", UintegerValue(config.queue_packets));
        made->SetAttribute("BufferSize", UintegerValue(config.buffer_bytes));
        made->SetAttribute("IngressLatency", TimeValue(NanoSeconds(config.ingress_latency_ns)));
        made->SetAttribute("EgressLatency", TimeValue(NanoSeconds(config.egress_latency_ns)));
        made->SetAttribute("PassRate", DoubleValue(config.pass_rate_pps));
        made->SetAttribute("RecirculationRate", UintegerValue(config.recirculation_bps));
        made->SetAttribute("EcnMin", DoubleValue(config.ecn_kmin_bytes));
        made->SetAttribute("EcnMax", DoubleValue(config.ecn_kmax_bytes));
        made->SetAttribute("EcnProbability", DoubleValue(config.ecn_pmax));
        made->SetAttribute("MaxRounds", UintegerValue(config.max_rounds));
        made->SetAttribute("Seed", UintegerValue(m_config.seed + m_switches.size()));
        made->SetProgram(config.library, config.engine, config.program);
        node->AggregateObject(made);
        m_nodes.push_back(node);
        m_switches.push_back(made);
    }
}

void
Network::MakeLinks()
{
    EthernetLinkHelper links;
    links.DisableFlowControl();
    links.SetDeviceAttribute("Mtu", UintegerValue(m_config.mtu_bytes));
    links.SetQueueAttribute("MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, m_config.host_queue_bytes)));
    for (const LinkConfig& link : m_config.links)
    {
        links.SetDeviceAttribute("DataRate", DataRateValue(DataRate(link.rate_bps)));
        links.SetChannelAttribute("Delay", TimeValue(NanoSeconds(link.delay_ns)));
        const NetDeviceContainer ends = links.Install(m_nodes.at(link.a), m_nodes.at(link.b));
        for (std::uint32_t side = 0; side < 2; ++side)
        {
            const std::uint32_t at = side == 0 ? link.a : link.b;
            const std::uint32_t port = side == 0 ? link.port_a : link.port_b;
            std::string name;
            if (at >= m_config.hosts.size())
            {
                const std::size_t number = at - m_config.hosts.size();
                m_switches[number]->AddPort(ends.Get(side), port);
                name = m_config.switches[number].name + "-" + std::to_string(port);
            }
            else
            {
                const HostConfig& host = m_config.hosts[at];
                ends.Get(side)->SetAddress(MacOf(host.mac));
                MakeHostAddress(host, m_nodes[at]);
                name = host.name;
            }
            for (const std::uint32_t recorded : m_config.pcap)
            {
                if (recorded == at)
                {
                    links.EnablePcap(m_config.pcap_prefix + name + ".pcap", ends.Get(side), true, true);
                }
            }
        }
        m_ends.push_back(ends);
    }
}

// Every address is on the link: a host asks for (or knows) the MAC address of whomever it sends to.
void
Network::MakeHostAddress(const HostConfig& host, const Ptr<Node>& node)
{
    const auto ipv4 = node->GetObject<Ipv4>();
    const std::uint32_t interface = ipv4->AddInterface(node->GetDevice(node->GetNDevices() - 1));
    ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(host.address), Ipv4Mask("255.0.0.0")));
    ipv4->SetUp(interface);
    Ipv4StaticRoutingHelper().GetStaticRouting(ipv4)->AddNetworkRouteTo(Ipv4Address::GetZero(), Ipv4Mask::GetZero(), interface);
}

void
Network::MakeFaults()
{
    std::map<std::uint32_t, std::array<Ptr<LinkFaults>, 2>> made;
    for (const FaultConfig& fault : m_config.faults)
    {
        auto& sides = made[fault.link];
        for (std::uint32_t side = 0; side < 2; ++side)
        {
            if (!sides[side])
            {
                sides[side] = CreateObject<LinkFaults>();
                sides[side]->lost = &m_lost.at(fault.link);
                DynamicCast<EthernetLinkDevice>(m_ends[fault.link].Get(side))->SetReceiveErrorModel(sides[side]);
            }
            sides[side]->Add(fault);
        }
    }
}

void
Network::MakeFlows()
{
    std::map<std::uint32_t, std::uint64_t> macs;
    for (const HostConfig& host : m_config.hosts)
    {
        macs[host.address] = host.mac;
    }
    constexpr std::uint64_t noHost = 0x02FE00000000; // locally administered; the address behind it
    for (const FlowConfig& config : m_config.flows)
    {
        m_flows.push_back(std::make_unique<Flow>(config, m_nodes));
        if (!m_config.static_arp)
        {
            continue;
        }
        const auto known = macs.find(config.address);
        KnowEachOther(config.source, config.address, known == macs.end() ? noHost | config.address : known->second);
        const HostConfig& source = m_config.hosts[config.source];
        for (const std::uint32_t listener : config.listeners)
        {
            KnowEachOther(listener, source.address, source.mac);
        }
    }
}

void
Network::KnowEachOther(std::uint32_t host, std::uint32_t address, std::uint64_t mac)
{
    const auto ipv4 = m_nodes.at(host)->GetObject<Ipv4L3Protocol>();
    const Ptr<ArpCache> cache = ipv4->GetInterface(1)->GetArpCache(); // 0 is the loopback
    ArpCache::Entry* entry = cache->Lookup(Ipv4Address(address));
    if (!entry)
    {
        entry = cache->Add(Ipv4Address(address));
    }
    entry->SetMacAddress(MacOf(mac));
    entry->MarkPermanent();
}

void
Network::Sample()
{
    const std::int64_t now = Simulator::Now().GetNanoSeconds();
    for (std::uint32_t i = 0; i < m_switches.size(); ++i)
    {
        for (std::uint32_t port = 0, left = m_switches[i]->GetNPorts(); left > 0; ++port)
        {
            if (!m_switches[i]->GetPort(port))
            {
                continue;
            }
            --left;
            const std::uint64_t peak = m_switches[i]->TakePeakBytes(port);
            if (peak > 0)
            {
                m_samples.push_back({now, i, port, peak});
            }
        }
    }
    Simulator::Schedule(NanoSeconds(m_config.sample_interval_ns), &Network::Sample, this);
}

void
Network::NoteRounds()
{
    m_roundsBefore.clear();
    for (const auto& node : m_switches)
    {
        m_roundsBefore.push_back(node->GetRecirculatedPasses());
    }
}

void
Network::Report(const std::function<void(double)>& progress)
{
    const std::int64_t all = m_config.duration_ns + m_config.drain_ns;
    progress(static_cast<double>(Simulator::Now().GetNanoSeconds()) / static_cast<double>(all));
    Simulator::Schedule(NanoSeconds(std::max<std::int64_t>(all / kReports, 1)), &Network::Report, this, std::cref(progress));
}

void
Network::Run(const std::function<void(double)>& progress)
{
    Simulator::Schedule(NanoSeconds(m_config.sample_interval_ns), &Network::Sample, this);
    Simulator::Schedule(Time(0), &Network::Report, this, std::cref(progress));
    const std::int64_t end = m_config.duration_ns + m_config.drain_ns;
    Simulator::Schedule(NanoSeconds(end - m_config.drain_ns / 10), &Network::NoteRounds, this);
    Simulator::Stop(NanoSeconds(end));
    Simulator::Run();
    if (m_roundsBefore.empty()) // stopped before, or no time to drain
    {
        NoteRounds();
    }
    m_events = Simulator::GetEventCount();
    m_endNs = Simulator::Now().GetNanoSeconds();
}

} // namespace netfold
