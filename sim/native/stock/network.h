// A network of stock ns-3 hosts and P4 switches, described by plain values and run to its end: what `netfold run` does with a
// [network] scenario. Hosts are ns-3 nodes with its IPv4, UDP and TCP and its own traffic sources; links are EthernetLinks;
// switches are P4Switches. Times in nanoseconds, addresses as numbers.
#ifndef NETFOLD_NETWORK_H
#define NETFOLD_NETWORK_H

#include "ethernet-link.h"
#include "flow.h"
#include "p4-switch.h"

#include "ns3/node.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace netfold
{

struct HostConfig
{
    std::string name;
    std::uint64_t mac{0};
    std::uint32_t address{0};
};

struct SwitchConfig
{
    std::string name;
    std::string program; // for messages
    std::string library; // p4.targets.Engine's library_path and address
    std::uint64_t engine{0};
    std::int64_t ingress_latency_ns{0};
    std::int64_t egress_latency_ns{0};
    double pass_rate_pps{0};
    std::uint64_t recirculation_bps{0};
    std::uint32_t queue_packets{0};
    std::uint64_t buffer_bytes{0};
    double ecn_kmin_bytes{0};
    double ecn_kmax_bytes{0};
    double ecn_pmax{0};
    std::uint32_t max_rounds{0};
};

// Nodes are numbered hosts first, then switches, each in the order of its list.
struct LinkConfig
{
    std::uint32_t a{0};
    std::uint32_t b{0};
    std::uint32_t port_a{0}; // of the program, where that end is a switch
    std::uint32_t port_b{0};
    std::uint64_t rate_bps{0};
    std::int64_t delay_ns{0};
};

// Frames lost on a link, in both directions.
struct FaultConfig
{
    std::uint32_t link{0};
    double loss{0};       // share of frames
    double mean_burst{1}; // frames lost in a row, on average
    std::int64_t from_ns{0};
    std::int64_t until_ns{0};
};

struct NetworkConfig
{
    std::vector<HostConfig> hosts;
    std::vector<SwitchConfig> switches;
    std::vector<LinkConfig> links;
    std::vector<FaultConfig> faults;
    std::vector<FlowConfig> flows;
    std::int64_t duration_ns{0}; // sources send until then
    std::int64_t drain_ns{0};    // and what is under way has this long to arrive
    std::int64_t sample_interval_ns{0};
    std::uint32_t mtu_bytes{1500};
    std::uint64_t host_queue_bytes{0};
    bool static_arp{true};
    std::string tcp{"ns3::TcpCubic"};
    bool tcp_ecn{false};
    std::uint32_t tcp_buffer_bytes{0};
    std::int64_t tcp_min_rto_ns{0};
    std::uint32_t seed{1};
    std::vector<std::uint32_t> pcap; // nodes whose devices are recorded
    std::string pcap_prefix;
};

// The longest backlog of a port in an interval; rows only where there was one.
struct QueueSample
{
    std::int64_t time_ns;
    std::uint32_t node; // of the switches
    std::uint32_t port;
    std::uint64_t backlog_bytes;
};

class Network
{
  public:
    // Throws std::runtime_error or std::invalid_argument. One at a time, as ns-3's simulator is one for the process: a new
    // network closes the one before, whose switches cannot be asked any more.
    explicit Network(NetworkConfig config);
    ~Network();

    // `progress` gets the share that is done, and may throw to end the run. Throws std::runtime_error when a program is
    // stopped as endless.
    void Run(const std::function<void(double)>& progress);

    const NetworkConfig& Config() const
    {
        return m_config;
    }

    const std::vector<std::unique_ptr<Flow>>& Flows() const
    {
        return m_flows;
    }

    const std::vector<QueueSample>& Queues() const
    {
        return m_samples;
    }

    const P4Switch& Switch(std::size_t i) const
    {
        return *m_switches.at(i);
    }

    // Passes beyond packets' first in the last tenth of the drain time, long after the last new packet: a packet that goes
    // round without end, although not often enough to be stopped.
    std::uint64_t LateRounds(std::size_t i) const
    {
        return m_switches.at(i)->GetRecirculatedPasses() - m_roundsBefore.at(i);
    }

    // Frames that faults damaged, by link.
    const std::vector<std::uint64_t>& Lost() const
    {
        return m_lost;
    }

    std::uint64_t Events() const
    {
        return m_events;
    }

    std::int64_t EndNs() const
    {
        return m_endNs;
    }

  private:
    void Close();
    void SetDefaults() const;
    void MakeNodes();
    void MakeLinks();
    void MakeHostAddress(const HostConfig& host, const ns3::Ptr<ns3::Node>& node);
    void MakeFaults();
    void MakeFlows();
    void KnowEachOther(std::uint32_t host, std::uint32_t address, std::uint64_t mac);
    void Sample();
    void NoteRounds();
    void Report(const std::function<void(double)>& progress);

    NetworkConfig m_config;
    std::vector<ns3::Ptr<ns3::Node>> m_nodes;
    std::vector<ns3::Ptr<P4Switch>> m_switches;
    std::vector<ns3::NetDeviceContainer> m_ends; // of the links
    std::vector<std::unique_ptr<Flow>> m_flows;
    std::vector<QueueSample> m_samples;
    std::vector<std::uint64_t> m_lost;
    std::vector<std::uint64_t> m_roundsBefore;
    std::uint64_t m_events{0};
    std::int64_t m_endNs{0};
};

} // namespace netfold

#endif
