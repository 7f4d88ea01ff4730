// One flow of traffic: an ns-3 source, who listens, and what was measured between them.
//
//   udp    ns-3's OnOffApplication (constant rate, or bursts of exponential length) to a counter at each listener; one-way
//          latency from the SeqTsSizeHeader that the source writes.
//   echo   requests in a constant interval to ns3::UdpEchoServer; round-trip latency from a SeqTsHeader that comes back.
//   tcp    ns3::BulkSendApplication to ns3::PacketSink; latency is what TCP measures as its round trip.
//   ping   ns3::Ping; round-trip latency.
#ifndef NETFOLD_FLOW_H
#define NETFOLD_FLOW_H

#include "ns3/application.h"
#include "ns3/bulk-send-application.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/socket.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{
class TcpHeader;
class TcpSocketBase;
} // namespace ns3

namespace netfold
{

struct FlowConfig
{
    std::string kind;
    std::uint32_t source{0};              // host
    std::vector<std::uint32_t> listeners; // hosts at which what it sends may arrive
    std::uint32_t address{0};             // where it sends to
    std::uint16_t port{0};                // of UDP and TCP; one for each flow
    std::uint8_t tos{0};                  // the IPv4 header's DSCP and ECN
    std::int64_t start_ns{0};
    std::int64_t stop_ns{0};
    std::uint64_t rate_bps{0};     // udp: of payload
    std::uint32_t packet_bytes{0}; // payload of a packet
    std::uint64_t bytes{0};        // udp, tcp: no more than that; 0: until it stops
    std::int64_t interval_ns{0};   // echo, ping
    std::int64_t on_ns{0};         // udp: mean length of a burst, and of the pause behind it; 0: no pauses
    std::int64_t off_ns{0};
};

struct FlowCounts
{
    std::uint64_t sent_packets{0}; // of tcp: 0
    std::uint64_t sent_bytes{0};   // payload; of tcp: handed to the socket
    std::uint64_t received_packets{0}; // of tcp: 0. Of echo and ping: answers
    std::uint64_t received_bytes{0};
    std::uint64_t duplicates{0}; // of them, seen before
    std::uint64_t reordered{0};  // of them, behind a later one
    std::uint64_t damaged{0};    // arrived, but with other contents than sent
    std::uint64_t retransmits{0};
    std::int64_t first_ns{-1}; // when the first byte of payload came
    std::int64_t last_ns{-1};
};

class Flow
{
  public:
    // Installs the source at `nodes[source]` and what answers at the listeners.
    Flow(const FlowConfig& config, const std::vector<ns3::Ptr<ns3::Node>>& nodes);

    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;

    FlowCounts counts;
    std::vector<std::int64_t> latencies_ps;

  private:
    void MakeUdp();
    void MakeEcho();
    void MakeTcp();
    void MakePing();
    void Install(const ns3::Ptr<ns3::Application>& application, std::uint32_t host, bool source);
    void Listen(std::uint32_t host);

    void UdpArrived(ns3::Ptr<ns3::Socket> socket);
    void SendRequest();
    void AnswerArrived(ns3::Ptr<ns3::Socket> socket);
    void Sent(ns3::Ptr<const ns3::Packet> packet);
    void TcpArrived(ns3::Ptr<const ns3::Packet> packet, const ns3::Address& from);
    void WatchTcp();
    void TcpRoundTrip(ns3::Time before, ns3::Time now);
    void TcpResent(ns3::Ptr<const ns3::Packet> packet,
                   const ns3::TcpHeader& header,
                   const ns3::Address& local,
                   const ns3::Address& peer,
                   ns3::Ptr<const ns3::TcpSocketBase> socket);
    void PingSent(std::uint16_t number, ns3::Ptr<ns3::Packet> packet);
    void PingRoundTrip(std::uint16_t number, ns3::Time rtt);

    // A packet with this number came; keeps `duplicates` and `reordered`.
    void Note(std::uint64_t number);
    void Received(std::uint64_t bytes);

    const FlowConfig m_config;
    const std::vector<ns3::Ptr<ns3::Node>>& m_nodes;
    ns3::Ptr<ns3::Socket> m_client;
    ns3::Ptr<ns3::BulkSendApplication> m_bulk;
    std::vector<bool> m_seen;
    std::uint64_t m_highest{0};
    std::uint32_t m_number{0};
};

} // namespace netfold

#endif
