#include "flow.h"

#include "ns3/boolean.h"
#include "ns3/bulk-send-application.h"
#include "ns3/data-rate.h"
#include "ns3/enum.h"
#include "ns3/inet-socket-address.h"
#include "ns3/onoff-application.h"
#include "ns3/packet-sink.h"
#include "ns3/packet.h"
#include "ns3/ping.h"
#include "ns3/seq-ts-header.h"
#include "ns3/seq-ts-size-header.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/udp-echo-server.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include <stdexcept>

namespace netfold
{

using namespace ns3;

namespace
{

constexpr std::uint32_t kTcpWriteBytes = 16384; // that BulkSendApplication hands to its socket at a time

std::string
Seconds(const char* kind, const char* parameter, std::int64_t ns)
{
    return std::string("ns3::") + kind + "[" + parameter + "=" + std::to_string(static_cast<double>(ns) * 1e-9) + "]";
}

Ptr<Socket>
UdpSocket(const Ptr<Node>& node)
{
    return Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
}

} // namespace

Flow::Flow(const FlowConfig& config, const std::vector<Ptr<Node>>& nodes)
    : m_config(config),
      m_nodes(nodes)
{
    if (config.kind == "udp")
    {
        MakeUdp();
    }
    else if (config.kind == "echo")
    {
        MakeEcho();
    }
    else if (config.kind == "tcp")
    {
        MakeTcp();
    }
    else if (config.kind == "ping")
    {
        MakePing();
    }
    else
    {
        throw std::invalid_argument("flow: kind " + config.kind);
    }
}

void
Flow::Install(const Ptr<Application>& application, std::uint32_t host, bool source)
{
    m_nodes.at(host)->AddApplication(application);
    application->SetStartTime(source ? NanoSeconds(m_config.start_ns) : Time(0));
    if (source)
    {
        application->SetStopTime(NanoSeconds(m_config.stop_ns));
    }
}

void
Flow::Received(std::uint64_t bytes)
{
    counts.received_bytes += bytes;
    counts.last_ns = Simulator::Now().GetNanoSeconds();
    counts.first_ns = counts.first_ns < 0 ? counts.last_ns : counts.first_ns;
}

void
Flow::Note(std::uint64_t number)
{
    if (number >= m_seen.size())
    {
        m_seen.resize(number + 1);
    }
    counts.duplicates += m_seen[number];
    counts.reordered += !m_seen[number] && number < m_highest;
    m_highest = std::max(m_highest, number);
    m_seen[number] = true;
}

void
Flow::Sent(Ptr<const Packet> packet)
{
    counts.sent_packets += m_config.kind == "udp";
    counts.sent_bytes += packet->GetSize();
}

// --- udp ---

void
Flow::MakeUdp()
{
    const auto source = CreateObject<OnOffApplication>();
    source->SetAttribute("Protocol", StringValue("ns3::UdpSocketFactory"));
    source->SetAttribute("Remote", AddressValue(InetSocketAddress(Ipv4Address(m_config.address), m_config.port)));
    source->SetAttribute("Tos", UintegerValue(m_config.tos));
    source->SetAttribute("DataRate", DataRateValue(DataRate(m_config.rate_bps)));
    source->SetAttribute("PacketSize", UintegerValue(m_config.packet_bytes));
    source->SetAttribute("MaxBytes", UintegerValue(m_config.bytes));
    source->SetAttribute("EnableSeqTsSizeHeader", BooleanValue(true));
    const bool bursts = m_config.off_ns > 0;
    const char* kind = bursts ? "ExponentialRandomVariable" : "ConstantRandomVariable";
    const char* parameter = bursts ? "Mean" : "Constant";
    // Without pauses one burst outlasts the run.
    source->SetAttribute("OnTime", StringValue(Seconds(kind, parameter, bursts ? m_config.on_ns : 2 * m_config.stop_ns)));
    source->SetAttribute("OffTime", StringValue(Seconds(kind, parameter, m_config.off_ns)));
    source->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::Sent, this));
    Install(source, m_config.source, true);
    for (const std::uint32_t host : m_config.listeners)
    {
        Listen(host);
    }
}

void
Flow::Listen(std::uint32_t host)
{
    const auto socket = UdpSocket(m_nodes.at(host));
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), m_config.port));
    socket->SetRecvCallback(MakeCallback(&Flow::UdpArrived, this));
}

void
Flow::UdpArrived(Ptr<Socket> socket)
{
    while (const Ptr<Packet> packet = socket->Recv())
    {
        ++counts.received_packets;
        Received(packet->GetSize());
        SeqTsSizeHeader header;
        if (packet->GetSize() < header.GetSerializedSize())
        {
            ++counts.damaged;
            continue;
        }
        packet->PeekHeader(header);
        // The program may have written anything over it.
        if (header.GetSize() != packet->GetSize() || header.GetSeq() >= counts.sent_packets || header.GetTs() > Simulator::Now())
        {
            ++counts.damaged;
            continue;
        }
        latencies_ps.push_back((Simulator::Now() - header.GetTs()).GetPicoSeconds());
        Note(header.GetSeq());
    }
}

// --- echo ---

void
Flow::MakeEcho()
{
    for (const std::uint32_t host : m_config.listeners)
    {
        const auto server = CreateObject<UdpEchoServer>();
        server->SetAttribute("Port", UintegerValue(m_config.port));
        Install(server, host, false);
    }
    m_client = UdpSocket(m_nodes.at(m_config.source));
    m_client->Bind();
    m_client->SetIpTos(m_config.tos);
    m_client->SetRecvCallback(MakeCallback(&Flow::AnswerArrived, this));
    Simulator::ScheduleWithContext(m_nodes.at(m_config.source)->GetId(),
                                   NanoSeconds(m_config.start_ns),
                                   &Flow::SendRequest,
                                   this);
}

void
Flow::SendRequest()
{
    SeqTsHeader header; // the time is now
    header.SetSeq(m_number++);
    const auto packet = Create<Packet>(m_config.packet_bytes - header.GetSerializedSize());
    packet->AddHeader(header);
    ++counts.sent_packets;
    counts.sent_bytes += packet->GetSize();
    m_client->SendTo(packet, 0, InetSocketAddress(Ipv4Address(m_config.address), m_config.port));
    const bool more = m_config.bytes == 0 || counts.sent_bytes + m_config.packet_bytes <= m_config.bytes;
    if (more && Simulator::Now() + NanoSeconds(m_config.interval_ns) < NanoSeconds(m_config.stop_ns))
    {
        Simulator::Schedule(NanoSeconds(m_config.interval_ns), &Flow::SendRequest, this);
    }
}

void
Flow::AnswerArrived(Ptr<Socket> socket)
{
    while (const Ptr<Packet> packet = socket->Recv())
    {
        ++counts.received_packets;
        Received(packet->GetSize());
        SeqTsHeader header;
        if (packet->GetSize() != m_config.packet_bytes)
        {
            ++counts.damaged;
            continue;
        }
        packet->PeekHeader(header);
        if (header.GetSeq() >= counts.sent_packets || header.GetTs() > Simulator::Now())
        {
            ++counts.damaged;
            continue;
        }
        latencies_ps.push_back((Simulator::Now() - header.GetTs()).GetPicoSeconds());
        Note(header.GetSeq());
    }
}

// --- tcp ---

void
Flow::MakeTcp()
{
    for (const std::uint32_t host : m_config.listeners)
    {
        const auto sink = CreateObject<PacketSink>();
        sink->SetAttribute("Protocol", StringValue("ns3::TcpSocketFactory"));
        sink->SetAttribute("Local", AddressValue(InetSocketAddress(Ipv4Address::GetAny(), m_config.port)));
        sink->TraceConnectWithoutContext("Rx", MakeCallback(&Flow::TcpArrived, this));
        Install(sink, host, false);
    }
    m_bulk = CreateObject<BulkSendApplication>();
    m_bulk->SetAttribute("Protocol", StringValue("ns3::TcpSocketFactory"));
    m_bulk->SetAttribute("Remote", AddressValue(InetSocketAddress(Ipv4Address(m_config.address), m_config.port)));
    m_bulk->SetAttribute("Tos", UintegerValue(m_config.tos));
    m_bulk->SetAttribute("SendSize", UintegerValue(kTcpWriteBytes));
    m_bulk->SetAttribute("MaxBytes", UintegerValue(m_config.bytes));
    m_bulk->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::Sent, this));
    m_bulk->TraceConnectWithoutContext("TcpRetransmission", MakeCallback(&Flow::TcpResent, this));
    Install(m_bulk, m_config.source, true);
    Simulator::Schedule(NanoSeconds(m_config.start_ns), &Flow::WatchTcp, this);
}

// The socket is made when the application starts; this event may come before that one.
void
Flow::WatchTcp()
{
    const Ptr<Socket> socket = m_bulk->GetSocket();
    if (!socket)
    {
        Simulator::Schedule(NanoSeconds(1), &Flow::WatchTcp, this);
        return;
    }
    socket->TraceConnectWithoutContext("RTT", MakeCallback(&Flow::TcpRoundTrip, this));
}

void
Flow::TcpArrived(Ptr<const Packet> packet, const Address& from)
{
    Received(packet->GetSize());
}

void
Flow::TcpRoundTrip(Time before, Time now)
{
    latencies_ps.push_back(now.GetPicoSeconds());
}

void
Flow::TcpResent(Ptr<const Packet> packet,
                const TcpHeader& header,
                const Address& local,
                const Address& peer,
                Ptr<const TcpSocketBase> socket)
{
    ++counts.retransmits;
}

// --- ping ---

void
Flow::MakePing()
{
    const auto ping = CreateObject<Ping>();
    ping->SetAttribute("Destination", AddressValue(Ipv4Address(m_config.address)));
    ping->SetAttribute("Interval", TimeValue(NanoSeconds(m_config.interval_ns)));
    ping->SetAttribute("Size", UintegerValue(m_config.packet_bytes));
    ping->SetAttribute("Count", UintegerValue(static_cast<std::uint32_t>(m_config.bytes / m_config.packet_bytes)));
    ping->SetAttribute("Tos", UintegerValue(m_config.tos));
    ping->SetAttribute("VerboseMode", EnumValue(Ping::VerboseMode::SILENT));
    ping->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::PingSent, this));
    ping->TraceConnectWithoutContext("Rtt", MakeCallback(&Flow::PingRoundTrip, this));
    Install(ping, m_config.source, true);
}

void
Flow::PingSent(std::uint16_t number, Ptr<Packet> packet)
{
    ++counts.sent_packets;
    counts.sent_bytes += m_config.packet_bytes;
}

void
Flow::PingRoundTrip(std::uint16_t number, Time rtt)
{
    ++counts.received_packets;
    Received(m_config.packet_bytes);
    latencies_ps.push_back(rtt.GetPicoSeconds());
    Note(number);
}

} // namespace netfold
