#include "p4-switch.h"

#include "../p4/program.h"
#include "../p4/traffic-manager.h"
#include "ethernet-link.h"

#include "ns3/channel.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/ethernet-header.h"
#include "ns3/log.h"
#include "ns3/packet.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <map>
#include <stdexcept>
#include <vector>

NS_LOG_COMPONENT_DEFINE("NetfoldP4Switch");

namespace netfold
{

using namespace ns3;

NS_OBJECT_ENSURE_REGISTERED(P4Switch);

namespace
{

constexpr std::uint32_t kMaxPort = 510;       // bit<9>, and 511 is v1model's drop port
constexpr std::uint32_t kEthernetOverhead = 4; // the FCS, which ns-3's CSMA device sends with the frame
constexpr std::size_t kTagged = 1024;          // packets whose tags are remembered at a time
constexpr std::uint64_t kLeastRate = 10'000; // of a port, bit/s: times of whole packets fit the traffic manager's numbers
constexpr std::size_t kMostWaiting = 1u << 20; // packets in a port's queues: about a gigabyte, and no real switch has it
constexpr std::uint32_t kNoTags = 0xFFFFFFFF;

// A device's "DataRate", or its channel's; 0 if neither has one.
std::uint64_t
RateOf(const Ptr<NetDevice>& device)
{
    DataRateValue rate;
    if (device->GetAttributeFailSafe("DataRate", rate))
    {
        return rate.Get().GetBitRate();
    }
    const Ptr<Channel> channel = device->GetChannel();
    if (channel && channel->GetAttributeFailSafe("DataRate", rate))
    {
        return rate.Get().GetBitRate();
    }
    return 0;
}

double
CheckedRate(std::uint64_t bitsPerSecond)
{
    if (bitsPerSecond > 0 && bitsPerSecond < kLeastRate)
    {
        throw std::invalid_argument("P4Switch: a port of " + std::to_string(bitsPerSecond) + " bit/s; at least " +
                                    std::to_string(kLeastRate));
    }
    return static_cast<double>(bitsPerSecond);
}

} // namespace

// The node's devices on one side, the traffic manager on the other.
class P4Switch::Core final : public P4Output
{
  public:
    explicit Core(P4Switch& owner)
        : m_owner(owner)
    {
    }

    void SetProgram(const std::string& library, std::uintptr_t engine, const std::string& name)
    {
        if (m_manager)
        {
            throw std::invalid_argument("P4Switch: the program cannot change once packets have come");
        }
        m_program = std::make_unique<P4Program>(library, engine);
        m_name = name.empty() ? "the P4 program" : name;
    }

    void AddPort(const Ptr<NetDevice>& device, std::uint32_t number)
    {
        if (number > kMaxPort)
        {
            throw std::invalid_argument("P4Switch: port " + std::to_string(number) + " given; at most " +
                                        std::to_string(kMaxPort));
        }
        if (m_ports.count(number))
        {
            throw std::invalid_argument("P4Switch: port " + std::to_string(number) + " is taken");
        }
        if (!device->SupportsSendFrom())
        {
            throw std::invalid_argument("P4Switch: " + device->GetInstanceTypeId().GetName() +
                                        " carries no Ethernet frames; use netfold::EthernetLinkDevice, or CSMA");
        }
        Port port{device, DynamicCast<EthernetLinkDevice>(device), number};
        if (port.link)
        {
            port.link->SetFrameCallback(
                Callback<void, Ptr<const Packet>>([this, number](Ptr<const Packet> frame) { Receive(number, frame); }));
        }
        else
        {
            m_numbers[PeekPointer(device)] = number;
            m_handler = MakeCallback(&Core::ReceiveStock, this);
            device->GetNode()->RegisterProtocolHandler(m_handler, 0, device, true);
        }
        const auto at = m_ports.emplace(number, std::move(port)).first;
        if (m_manager)
        {
            Configure(at->second);
        }
    }

    std::uint32_t NextNumber() const
    {
        return m_ports.empty() ? 0 : m_ports.rbegin()->first + 1;
    }

    std::uint32_t Count() const
    {
        return static_cast<std::uint32_t>(m_ports.size());
    }

    Ptr<NetDevice> Device(std::uint32_t number) const
    {
        const auto at = m_ports.find(number);
        return at == m_ports.end() ? nullptr : at->second.device;
    }

    P4TrafficManager* Manager()
    {
        return m_manager.get();
    }

    P4Program* Program()
    {
        return m_program.get();
    }

    Ps Now() const
    {
        return m_events->Now();
    }

    // A whole frame, its last bit just in.
    void Receive(std::uint32_t number, const Ptr<const Packet>& frame)
    {
        m_owner.m_receive(frame, number);
        const std::uint32_t bytes = frame->GetSize();
        if (m_bytes.size() < bytes)
        {
            m_bytes.resize(bytes);
        }
        frame->CopyData(m_bytes.data(), bytes);
        P4TrafficManager& manager = Start();
        manager.Receive(number, m_bytes.data(), bytes, Remember(frame), m_events->Now());
    }

    // --- P4Output ---

    void Transmit(std::uint32_t number, std::uint8_t* data, std::size_t bytes, std::uint32_t source, Ps now) override
    {
        const auto at = m_ports.find(number);
        const Port& port = at->second; // the traffic manager sends only where SetPort() was called
        if (!port.link && bytes < kHeaderBytes)
        {
            return; // no frame: a stock device could not send it
        }
        if (port.link)
        {
            const auto frame = Create<Packet>(data, static_cast<std::uint32_t>(bytes));
            Recall(source, frame);
            m_owner.m_transmit(frame, number);
            port.link->SendFrame(frame);
            return;
        }
        Mac48Address to, from;
        to.CopyFrom(data);
        from.CopyFrom(data + 6);
        const auto protocol = static_cast<std::uint16_t>(data[12] << 8 | data[13]);
        const auto packet = Create<Packet>(data + kHeaderBytes, static_cast<std::uint32_t>(bytes - kHeaderBytes));
        Recall(source, packet);
        if (!m_owner.m_transmit.IsEmpty())
        {
            m_owner.m_transmit(Create<Packet>(data, static_cast<std::uint32_t>(bytes)), number);
        }
        port.device->SendFrom(packet, from, to, protocol);
    }

    void Dropped(std::uint32_t number, std::uint32_t source, Ps now) override
    {
        m_owner.m_drop(number);
    }

    void Detach()
    {
        for (auto& [number, port] : m_ports)
        {
            if (port.link)
            {
                port.link->SetFrameCallback(EthernetLinkDevice::FrameCallback());
            }
            else if (const Ptr<Node> node = port.device->GetNode())
            {
                node->UnregisterProtocolHandler(m_handler);
            }
        }
    }

  private:
    static constexpr std::size_t kHeaderBytes = 14;

    struct Port
    {
        Ptr<NetDevice> device;
        Ptr<EthernetLinkDevice> link; // the same, if it is one of ours
        std::uint32_t number;
    };

    // A stock device hands up the payload and the header's fields.
    void ReceiveStock(Ptr<NetDevice> device,
                      Ptr<const Packet> payload,
                      std::uint16_t protocol,
                      const Address& from,
                      const Address& to,
                      NetDevice::PacketType)
    {
        EthernetHeader header(false);
        header.SetSource(Mac48Address::ConvertFrom(from));
        header.SetDestination(Mac48Address::ConvertFrom(to));
        header.SetLengthType(protocol);
        const auto frame = payload->Copy();
        frame->AddHeader(header);
        Receive(m_numbers.at(PeekPointer(device)), frame);
    }

    P4TrafficManager& Start()
    {
        if (m_manager) [[likely]]
        {
            return *m_manager;
        }
        if (!m_program)
        {
            throw std::runtime_error("P4Switch: a packet came before SetProgram()");
        }
        if (Time::GetResolution() != Time::PS)
        {
            throw std::runtime_error(
                "P4Switch: Time's resolution must be picoseconds; call Time::SetResolution(Time::PS) first of all");
        }
        const P4Switch& o = m_owner;
        P4SwitchSettings settings;
        settings.name = o.m_name.empty() ? "P4 switch" : o.m_name;
        settings.program = m_name;
        settings.passPs = o.m_passRate > 0 ? static_cast<Ps>(1e12 / o.m_passRate + 0.5) : 0;
        settings.ingressLatency = o.m_ingressLatency.GetPicoSeconds();
        settings.egressLatency = o.m_egressLatency.GetPicoSeconds();
        settings.recirculation.rateBps = CheckedRate(o.m_recirculationBps);
        settings.bufferBytes = o.m_bufferBytes;
        settings.maxRounds = o.m_maxRounds;
        settings.maxWaiting = kMostWaiting;
        settings.seed = o.m_seed;
        m_events = std::make_unique<Events>(
            dynamic_cast<LaneSimulatorImpl*>(PeekPointer(Simulator::GetImplementation())));
        m_manager = std::make_unique<P4TrafficManager>(*m_events, *m_program, *this, settings);
        for (const auto& [number, port] : m_ports)
        {
            Configure(port);
        }
        return *m_manager;
    }

    void Configure(const Port& port)
    {
        P4PortSettings settings;
        settings.rateBps = CheckedRate(port.link ? port.link->GetDataRate().GetBitRate() : RateOf(port.device));
        settings.wireOverheadBytes = port.link ? port.link->GetWireOverhead() : kEthernetOverhead;
        settings.depthPackets = m_owner.m_queuePackets;
        settings.ecnKminBytes = m_owner.m_ecnMin;
        settings.ecnKmaxBytes = m_owner.m_ecnMax;
        settings.ecnPmax = m_owner.m_ecnProbability;
        m_manager->SetPort(port.number, settings);
    }

    // ns-3's tags (FlowMonitor's, for instance) are no bytes of the packet, so they go round the program.
    std::uint32_t Remember(const Ptr<const Packet>& frame)
    {
        if (!frame->GetPacketTagIterator().HasNext() && !frame->GetByteTagIterator().HasNext())
        {
            return kNoTags;
        }
        m_tagged.resize(kTagged);
        const std::uint32_t number = m_nextTagged++;
        m_nextTagged = m_nextTagged == kNoTags ? 0 : m_nextTagged;
        m_tagged[number % kTagged] = {number, frame};
        return number;
    }

    void Recall(std::uint32_t source, const Ptr<Packet>& packet) const
    {
        if (source == kNoTags || m_tagged[source % kTagged].number != source)
        {
            return;
        }
        const Ptr<const Packet> from = m_tagged[source % kTagged].frame;
        for (auto tags = from->GetPacketTagIterator(); tags.HasNext();)
        {
            const auto item = tags.Next();
            const std::unique_ptr<Tag> tag(static_cast<Tag*>(item.GetTypeId().GetConstructor()()));
            item.GetTag(*tag);
            packet->AddPacketTag(*tag);
        }
        for (auto tags = from->GetByteTagIterator(); tags.HasNext();)
        {
            const auto item = tags.Next();
            const std::unique_ptr<Tag> tag(static_cast<Tag*>(item.GetTypeId().GetConstructor()()));
            item.GetTag(*tag);
            packet->AddByteTag(*tag); // to all of it: the program may have moved the bytes
        }
    }

    struct Tagged
    {
        std::uint32_t number{kNoTags};
        Ptr<const Packet> frame;
    };

    P4Switch& m_owner;
    std::unique_ptr<Events> m_events; // from the first packet on, when the simulator is chosen
    std::unique_ptr<P4Program> m_program;
    std::string m_name; // the program's
    std::unique_ptr<P4TrafficManager> m_manager;
    std::map<std::uint32_t, Port> m_ports;
    std::map<const NetDevice*, std::uint32_t> m_numbers; // of stock devices
    Node::ProtocolHandler m_handler;
    std::vector<std::uint8_t> m_bytes;
    std::vector<Tagged> m_tagged;
    std::uint32_t m_nextTagged{0};
};

// --- the ns-3 object ---

TypeId
P4Switch::GetTypeId()
{
    static TypeId tid =
        TypeId("netfold::P4Switch")
            .SetParent<Object>()
            .SetGroupName("Netfold")
            .AddConstructor<P4Switch>()
            .AddAttribute("Name",
                          "The switch's name in messages",
                          StringValue(""),
                          MakeStringAccessor(&P4Switch::m_name),
                          MakeStringChecker())
            .AddAttribute("QueueSize",
                          "Packets that each of a port's eight priorities holds; one more is dropped. 0: no limit",
                          UintegerValue(1000),
                          MakeUintegerAccessor(&P4Switch::m_queuePackets),
                          MakeUintegerChecker<std::uint32_t>())
            .AddAttribute("BufferSize",
                          "Bytes that all queues together hold. 0: no limit",
                          UintegerValue(0),
                          MakeUintegerAccessor(&P4Switch::m_bufferBytes),
                          MakeUintegerChecker<std::uint64_t>())
            .AddAttribute("IngressLatency",
                          "Time that parser and ingress take",
                          TimeValue(NanoSeconds(200)),
                          MakeTimeAccessor(&P4Switch::m_ingressLatency),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("EgressLatency",
                          "Time that egress and deparser take",
                          TimeValue(NanoSeconds(200)),
                          MakeTimeAccessor(&P4Switch::m_egressLatency),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("PassRate",
                          "Packets a second into the pipeline, new and recirculated ones. 0: no limit",
                          DoubleValue(0),
                          MakeDoubleAccessor(&P4Switch::m_passRate),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("RecirculationRate",
                          "Bits a second of a port that recirculates: one that has no device. 0: no limit",
                          UintegerValue(100'000'000'000),
                          MakeUintegerAccessor(&P4Switch::m_recirculationBps),
                          MakeUintegerChecker<std::uint64_t>())
            .AddAttribute("EcnMin",
                          "Backlog of a port, bytes, from which ECN-capable IPv4 packets are marked",
                          DoubleValue(0),
                          MakeDoubleAccessor(&P4Switch::m_ecnMin),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("EcnMax",
                          "Backlog from which all are marked, bytes. 0: none is",
                          DoubleValue(0),
                          MakeDoubleAccessor(&P4Switch::m_ecnMax),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("EcnProbability",
                          "Share that is marked just below EcnMax; it rises from 0 at EcnMin",
                          DoubleValue(0.1),
                          MakeDoubleAccessor(&P4Switch::m_ecnProbability),
                          MakeDoubleChecker<double>(0, 1))
            .AddAttribute("MaxRounds",
                          "Passes of one packet, after which the program is stopped as endless",
                          UintegerValue(10'000),
                          MakeUintegerAccessor(&P4Switch::m_maxRounds),
                          MakeUintegerChecker<std::uint32_t>(1))
            .AddAttribute("Seed",
                          "Of the numbers that ECN marking draws",
                          UintegerValue(1),
                          MakeUintegerAccessor(&P4Switch::m_seed),
                          MakeUintegerChecker<std::uint64_t>())
            .AddTraceSource("Receive",
                            "A frame that arrives, and its port",
                            MakeTraceSourceAccessor(&P4Switch::m_receive),
                            "netfold::P4Switch::FrameTracedCallback")
            .AddTraceSource("Transmit",
                            "A frame that leaves, and its port",
                            MakeTraceSourceAccessor(&P4Switch::m_transmit),
                            "netfold::P4Switch::FrameTracedCallback")
            .AddTraceSource("Drop",
                            "The port whose full queue, or the buffer, dropped a packet",
                            MakeTraceSourceAccessor(&P4Switch::m_drop),
                            "netfold::P4Switch::DropTracedCallback");
    return tid;
}

P4Switch::P4Switch()
    : m_core(std::make_unique<Core>(*this))
{
}

P4Switch::~P4Switch() = default;

void
P4Switch::DoDispose()
{
    if (m_core)
    {
        m_core->Detach();
    }
    m_core.reset();
    Object::DoDispose();
}

void
P4Switch::SetProgram(const std::string& library, std::uintptr_t engine, const std::string& name)
{
    m_core->SetProgram(library, engine, name);
}

std::uint32_t
P4Switch::AddPort(Ptr<NetDevice> device)
{
    return AddPort(device, m_core->NextNumber());
}

std::uint32_t
P4Switch::AddPort(Ptr<NetDevice> device, std::uint32_t port)
{
    m_core->AddPort(device, port);
    return port;
}

std::uint32_t
P4Switch::GetNPorts() const
{
    return m_core->Count();
}

Ptr<NetDevice>
P4Switch::GetPort(std::uint32_t port) const
{
    return m_core->Device(port);
}

P4SwitchPort
P4Switch::GetCounters(std::uint32_t port) const
{
    if (!m_core->Manager())
    {
        return {};
    }
    const P4PortCounters& counted = m_core->Manager()->Port(port);
    return {counted.packets, counted.bytes, counted.drops, counted.marks, counted.maxBacklogBytes};
}

P4SwitchDrops
P4Switch::GetDrops() const
{
    if (!m_core->Manager())
    {
        return {};
    }
    const P4Drops& counted = m_core->Manager()->Drops();
    return {counted.program, counted.queue, counted.nowhere};
}

std::uint64_t
P4Switch::GetBacklogBytes(std::uint32_t port) const
{
    return m_core->Manager() ? m_core->Manager()->Backlog(port, m_core->Now()) : 0;
}

std::uint64_t
P4Switch::TakePeakBytes(std::uint32_t port)
{
    return m_core->Manager() ? m_core->Manager()->TakePeak(port, m_core->Now()) : 0;
}

std::uint64_t
P4Switch::GetPasses() const
{
    return m_core->Program() ? m_core->Program()->Statistics().passes : 0;
}

std::uint64_t
P4Switch::GetRecirculatedPasses() const
{
    return m_core->Manager() ? m_core->Manager()->Recirculated() : 0;
}

// --- the helper ---

P4SwitchHelper::P4SwitchHelper()
{
    m_switch.SetTypeId(P4Switch::GetTypeId());
}

void
P4SwitchHelper::SetAttribute(const std::string& name, const AttributeValue& value)
{
    m_switch.Set(name, value);
}

Ptr<P4Switch>
P4SwitchHelper::Install(Ptr<Node> node,
                        const NetDeviceContainer& ports,
                        const std::string& library,
                        std::uintptr_t engine,
                        const std::string& name) const
{
    const auto made = m_switch.Create<P4Switch>();
    node->AggregateObject(made);
    made->SetProgram(library, engine, name);
    for (std::uint32_t i = 0; i < ports.GetN(); ++i)
    {
        made->AddPort(ports.Get(i));
    }
    return made;
}

} // namespace netfold
