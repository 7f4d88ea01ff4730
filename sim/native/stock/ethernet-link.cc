#include "ethernet-link.h"

#include "readable.h"

#include "ns3/abort.h"
#include "ns3/error-model.h"
#include "ns3/ethernet-header.h"
#include "ns3/log.h"
#include "ns3/net-device-queue-interface.h"
#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/pointer.h"
#include "ns3/queue.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <algorithm>

NS_LOG_COMPONENT_DEFINE("NetfoldEthernetLink");

namespace netfold
{

using namespace ns3;

NS_OBJECT_ENSURE_REGISTERED(EthernetLinkChannel);
NS_OBJECT_ENSURE_REGISTERED(EthernetLinkDevice);

namespace
{
constexpr std::uint16_t kLeastType = 0x0600; // IEEE 802.3: below it the field is a length
} // namespace

// --- the cable ---

TypeId
EthernetLinkChannel::GetTypeId()
{
    static TypeId tid = TypeId("netfold::EthernetLinkChannel")
                            .SetParent<Channel>()
                            .SetGroupName("Netfold")
                            .AddConstructor<EthernetLinkChannel>()
                            .AddAttribute("Delay",
                                          "Propagation delay",
                                          TimeValue(MicroSeconds(1)),
                                          MakeTimeAccessor(&EthernetLinkChannel::m_delay),
                                          MakeTimeChecker(Time(0)));
    return tid;
}

void
EthernetLinkChannel::Attach(Ptr<EthernetLinkDevice> device)
{
    NS_ABORT_MSG_IF(m_used == m_ends.size(), "netfold::EthernetLinkChannel: a link has two ends");
    m_ends[m_used++] = device;
}

std::size_t
EthernetLinkChannel::GetNDevices() const
{
    return m_used;
}

Ptr<NetDevice>
EthernetLinkChannel::GetDevice(std::size_t i) const
{
    return m_ends.at(i);
}

void
EthernetLinkChannel::Transmit(Ptr<const Packet> frame, const EthernetLinkDevice* sender, Time duration)
{
    const Ptr<EthernetLinkDevice>& peer = m_ends[PeekPointer(m_ends[0]) == sender ? 1 : 0];
    if (!peer)
    {
        return;
    }
    Simulator::ScheduleWithContext(peer->GetNode()->GetId(),
                                   duration + m_delay,
                                   &EthernetLinkDevice::Receive,
                                   peer,
                                   frame->Copy());
}

void
EthernetLinkChannel::DoDispose()
{
    m_ends = {};
    m_used = 0;
    Channel::DoDispose();
}

// --- an end ---

TypeId
EthernetLinkDevice::GetTypeId()
{
    const auto trace = [](TypeId& id, const char* name, const char* help, Ptr<const TraceSourceAccessor> source) {
        id.AddTraceSource(name, help, source, "ns3::Packet::TracedCallback");
    };
    static TypeId tid = [&] {
        TypeId id = TypeId("netfold::EthernetLinkDevice")
                        .SetParent<NetDevice>()
                        .SetGroupName("Netfold")
                        .AddConstructor<EthernetLinkDevice>()
                        .AddAttribute("Mtu",
                                      "The largest payload of a frame, bytes",
                                      UintegerValue(1500),
                                      MakeUintegerAccessor(&EthernetLinkDevice::SetMtu, &EthernetLinkDevice::GetMtu),
                                      MakeUintegerChecker<std::uint16_t>(46))
                        .AddAttribute("DataRate",
                                      "Rate at which bits leave",
                                      DataRateValue(DataRate(10'000'000'000ULL)),
                                      MakeDataRateAccessor(&EthernetLinkDevice::SetDataRate,
                                                           &EthernetLinkDevice::GetDataRate),
                                      MakeDataRateChecker())
                        .AddAttribute("WireOverhead",
                                      "Bytes a frame takes on the wire beyond itself: preamble and start delimiter 8, "
                                      "FCS 4, gap 12 (IEEE 802.3)",
                                      UintegerValue(24),
                                      MakeUintegerAccessor(&EthernetLinkDevice::m_overhead),
                                      MakeUintegerChecker<std::uint32_t>(0, 1000))
                        .AddAttribute("Address",
                                      "The MAC address",
                                      Mac48AddressValue(Mac48Address("ff:ff:ff:ff:ff:ff")),
                                      MakeMac48AddressAccessor(&EthernetLinkDevice::m_address),
                                      MakeMac48AddressChecker())
                        .AddAttribute("TxQueue",
                                      "Frames that wait for the transmitter",
                                      PointerValue(),
                                      MakePointerAccessor(&EthernetLinkDevice::m_queue),
                                      MakePointerChecker<Queue<Packet>>())
                        .AddAttribute("ReceiveErrorModel",
                                      "Decides which arriving frames are damaged, and dropped",
                                      PointerValue(),
                                      MakePointerAccessor(&EthernetLinkDevice::m_errors),
                                      MakePointerChecker<ErrorModel>());
        using Device = EthernetLinkDevice;
        trace(id, "MacTx", "A frame from above", MakeTraceSourceAccessor(&Device::m_macTx));
        trace(id, "MacTxDrop", "Dropped before the queue, or by it", MakeTraceSourceAccessor(&Device::m_macTxDrop));
        trace(id, "MacRx", "A packet handed up to this node", MakeTraceSourceAccessor(&Device::m_macRx));
        trace(id, "MacPromiscRx", "Any packet that arrived", MakeTraceSourceAccessor(&Device::m_macPromiscRx));
        trace(id, "PhyTxBegin", "A frame's first bit leaves", MakeTraceSourceAccessor(&Device::m_phyTxBegin));
        trace(id, "PhyRxEnd", "A frame's last bit has arrived", MakeTraceSourceAccessor(&Device::m_phyRxEnd));
        trace(id, "PhyRxDrop", "Damaged on its way, or cut short so that no host can read it", MakeTraceSourceAccessor(&Device::m_phyRxDrop));
        trace(id, "Sniffer", "Frames sent, and received for this node", MakeTraceSourceAccessor(&Device::m_sniffer));
        trace(id, "PromiscSniffer", "Every frame on the wire", MakeTraceSourceAccessor(&Device::m_promiscSniffer));
        return id;
    }();
    return tid;
}

EthernetLinkDevice::EthernetLinkDevice() = default;
EthernetLinkDevice::~EthernetLinkDevice() = default;

void
EthernetLinkDevice::DoDispose()
{
    m_node = nullptr;
    m_channel = nullptr;
    m_queue = nullptr;
    m_errors = nullptr;
    m_frameCallback = FrameCallback();
    m_receive = ReceiveCallback();
    m_promisc = PromiscReceiveCallback();
    NetDevice::DoDispose();
}

bool
EthernetLinkDevice::Attach(Ptr<EthernetLinkChannel> channel)
{
    m_channel = channel;
    m_channel->Attach(this);
    m_linkChange();
    return true;
}

void
EthernetLinkDevice::SetQueue(Ptr<Queue<Packet>> queue)
{
    m_queue = queue;
}

Ptr<Queue<Packet>>
EthernetLinkDevice::GetQueue() const
{
    return m_queue;
}

void
EthernetLinkDevice::SetReceiveErrorModel(Ptr<ErrorModel> model)
{
    m_errors = model;
}

void
EthernetLinkDevice::SetDataRate(DataRate rate)
{
    NS_ABORT_MSG_IF(rate.GetBitRate() == 0, "netfold::EthernetLinkDevice: a DataRate of 0 moves nothing");
    m_rate = rate;
}

DataRate
EthernetLinkDevice::GetDataRate() const
{
    return m_rate;
}

Time
EthernetLinkDevice::GetFrameTime(std::uint32_t bytes) const
{
    // In integers: DataRate::CalculateBytesTxTime divides 128-bit fixed point numbers, for every frame.
    static const std::int64_t perSecond = Seconds(1).GetTimeStep();
    const unsigned __int128 bits = (std::uint64_t{bytes} + m_overhead) * 8;
    const std::uint64_t rate = m_rate.GetBitRate();
    return Time(static_cast<std::uint64_t>((bits * perSecond + rate - 1) / rate));
}

std::uint32_t
EthernetLinkDevice::GetWireOverhead() const
{
    return m_overhead;
}

bool
EthernetLinkDevice::Send(Ptr<Packet> packet, const Address& dest, std::uint16_t protocol)
{
    return SendFrom(packet, m_address, dest, protocol);
}

bool
EthernetLinkDevice::SendFrom(Ptr<Packet> packet, const Address& source, const Address& dest, std::uint16_t protocol)
{
    if (!m_channel || packet->GetSize() > m_mtu)
    {
        m_macTxDrop(packet);
        return false;
    }
    EthernetHeader header(false);
    header.SetSource(Mac48Address::ConvertFrom(source));
    header.SetDestination(Mac48Address::ConvertFrom(dest));
    header.SetLengthType(protocol);
    packet->AddHeader(header);
    return Enqueue(packet);
}

void
EthernetLinkDevice::SendFrame(Ptr<const Packet> frame)
{
    m_macTx(frame);
    if (!m_channel)
    {
        m_macTxDrop(frame);
        return;
    }
    Transmit(frame, GetFrameTime(frame->GetSize()));
}

bool
EthernetLinkDevice::Enqueue(Ptr<Packet> frame)
{
    m_macTx(frame);
    if (!m_queue->Enqueue(frame))
    {
        m_macTxDrop(frame);
        return false;
    }
    if (!m_waiting)
    {
        TransmitNext();
    }
    return true;
}

// An idle transmitter costs no event when a frame ends: the next frame finds out by m_freeAt.
void
EthernetLinkDevice::TransmitNext()
{
    m_waiting = false;
    const Time now = Simulator::Now();
    if (now < m_freeAt)
    {
        m_waiting = true;
        Simulator::Schedule(m_freeAt - now, &EthernetLinkDevice::TransmitNext, this);
        return;
    }
    if (!m_queue)
    {
        return; // disposed of
    }
    const Ptr<Packet> frame = m_queue->Dequeue();
    if (!frame)
    {
        return;
    }
    const Time duration = GetFrameTime(frame->GetSize());
    m_freeAt = now + duration;
    Transmit(frame, duration);
    if (!m_queue->IsEmpty())
    {
        m_waiting = true;
        Simulator::Schedule(duration, &EthernetLinkDevice::TransmitNext, this);
    }
}

void
EthernetLinkDevice::Transmit(Ptr<const Packet> frame, Time duration)
{
    m_phyTxBegin(frame);
    m_sniffer(frame);
    m_promiscSniffer(frame);
    m_channel->Transmit(frame, this, duration);
}

void
EthernetLinkDevice::Receive(Ptr<Packet> frame)
{
    if (!m_node)
    {
        return; // disposed of
    }
    m_phyRxEnd(frame);
    if (m_errors && m_errors->IsCorrupt(frame))
    {
        m_phyRxDrop(frame);
        return;
    }
    m_promiscSniffer(frame);
    if (!m_frameCallback.IsNull())
    {
        m_sniffer(frame);
        m_frameCallback(frame);
        return;
    }
    EthernetHeader header(false);
    if (frame->GetSize() < header.GetSerializedSize())
    {
        m_phyRxDrop(frame);
        return;
    }
    const bool sniffed = !m_sniffer.IsEmpty();
    const Ptr<Packet> whole = sniffed ? frame->Copy() : nullptr;
    frame->RemoveHeader(header);
    std::uint16_t protocol = header.GetLengthType();
    if (protocol < kLeastType && protocol < frame->GetSize())
    {
        frame->RemoveAtEnd(frame->GetSize() - protocol);
    }
    if (!IsReadable(*frame, protocol))
    {
        m_phyRxDrop(frame);
        return;
    }
    const Mac48Address to = header.GetDestination();
    const PacketType type = to.IsBroadcast()   ? PACKET_BROADCAST
                            : to.IsGroup()     ? PACKET_MULTICAST
                            : to == m_address ? PACKET_HOST
                                              : PACKET_OTHERHOST;
    if (!m_promisc.IsNull())
    {
        m_macPromiscRx(frame);
        m_promisc(this, frame, protocol, header.GetSource(), to, type);
    }
    if (type != PACKET_OTHERHOST)
    {
        if (sniffed)
        {
            m_sniffer(whole);
        }
        m_macRx(frame);
        m_receive(this, frame, protocol, header.GetSource());
    }
}

void
EthernetLinkDevice::SetFrameCallback(FrameCallback callback)
{
    m_frameCallback = callback;
}

void
EthernetLinkDevice::SetIfIndex(const std::uint32_t index)
{
    m_ifIndex = index;
}

std::uint32_t
EthernetLinkDevice::GetIfIndex() const
{
    return m_ifIndex;
}

Ptr<Channel>
EthernetLinkDevice::GetChannel() const
{
    return m_channel;
}

void
EthernetLinkDevice::SetAddress(Address address)
{
    m_address = Mac48Address::ConvertFrom(address);
}

Address
EthernetLinkDevice::GetAddress() const
{
    return m_address;
}

bool
EthernetLinkDevice::SetMtu(const std::uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

std::uint16_t
EthernetLinkDevice::GetMtu() const
{
    return m_mtu;
}

bool
EthernetLinkDevice::IsLinkUp() const
{
    return m_channel && m_channel->GetNDevices() == 2;
}

void
EthernetLinkDevice::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkChange.ConnectWithoutContext(callback);
}

bool
EthernetLinkDevice::IsBroadcast() const
{
    return true;
}

Address
EthernetLinkDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
EthernetLinkDevice::IsMulticast() const
{
    return true;
}

Address
EthernetLinkDevice::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
EthernetLinkDevice::GetMulticast(Ipv6Address group) const
{
    return Mac48Address::GetMulticast(group);
}

bool
EthernetLinkDevice::IsBridge() const
{
    return false;
}

// In ns-3's sense, a link without addresses: this one has them.
bool
EthernetLinkDevice::IsPointToPoint() const
{
    return false;
}

Ptr<Node>
EthernetLinkDevice::GetNode() const
{
    return m_node;
}

void
EthernetLinkDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
EthernetLinkDevice::NeedsArp() const
{
    return true;
}

void
EthernetLinkDevice::SetReceiveCallback(ReceiveCallback callback)
{
    m_receive = callback;
}

void
EthernetLinkDevice::SetPromiscReceiveCallback(PromiscReceiveCallback callback)
{
    m_promisc = callback;
}

bool
EthernetLinkDevice::SupportsSendFrom() const
{
    return true;
}

// --- the helper ---

EthernetLinkHelper::EthernetLinkHelper()
{
    m_queue.SetTypeId("ns3::DropTailQueue<Packet>");
    m_device.SetTypeId(EthernetLinkDevice::GetTypeId());
    m_channel.SetTypeId(EthernetLinkChannel::GetTypeId());
}

void
EthernetLinkHelper::SetQueue(const std::string& type)
{
    std::string full = type;
    QueueBase::AppendItemTypeIfNotPresent(full, "Packet");
    m_queue.SetTypeId(full);
}

void
EthernetLinkHelper::SetQueueAttribute(const std::string& name, const AttributeValue& value)
{
    m_queue.Set(name, value);
}

void
EthernetLinkHelper::SetDeviceAttribute(const std::string& name, const AttributeValue& value)
{
    m_device.Set(name, value);
}

void
EthernetLinkHelper::SetChannelAttribute(const std::string& name, const AttributeValue& value)
{
    m_channel.Set(name, value);
}

void
EthernetLinkHelper::DisableFlowControl()
{
    m_flowControl = false;
}

Ptr<EthernetLinkDevice>
EthernetLinkHelper::MakeEnd(Ptr<Node> node) const
{
    const auto device = m_device.Create<EthernetLinkDevice>();
    device->SetAddress(Mac48Address::Allocate());
    const auto queue = m_queue.Create<Queue<Packet>>();
    device->SetQueue(queue);
    node->AddDevice(device);
    if (m_flowControl)
    {
        const auto interface = CreateObject<NetDeviceQueueInterface>();
        interface->GetTxQueue(0)->ConnectQueueTraces(queue);
        device->AggregateObject(interface);
    }
    return device;
}

NetDeviceContainer
EthernetLinkHelper::Install(Ptr<Node> a, Ptr<Node> b) const
{
    const auto channel = m_channel.Create<EthernetLinkChannel>();
    NetDeviceContainer ends;
    for (const Ptr<Node>& node : {a, b})
    {
        const auto device = MakeEnd(node);
        device->Attach(channel);
        ends.Add(device);
    }
    return ends;
}

NetDeviceContainer
EthernetLinkHelper::Install(const NodeContainer& two) const
{
    NS_ABORT_MSG_IF(two.GetN() != 2, "netfold::EthernetLinkHelper: a link joins two nodes, given " << two.GetN());
    return Install(two.Get(0), two.Get(1));
}

void
EthernetLinkHelper::EnablePcapInternal(std::string prefix, Ptr<NetDevice> device, bool promiscuous, bool explicitFilename)
{
    const auto end = DynamicCast<EthernetLinkDevice>(device);
    if (!end)
    {
        NS_LOG_INFO("device " << device << " is no netfold::EthernetLinkDevice");
        return;
    }
    PcapHelper pcap;
    const std::string name = explicitFilename ? prefix : pcap.GetFilenameFromDevice(prefix, end);
    const auto file = pcap.CreateFile(name, std::ios::out, PcapHelper::DLT_EN10MB);
    pcap.HookDefaultSink<EthernetLinkDevice>(end, promiscuous ? "PromiscSniffer" : "Sniffer", file);
}

} // namespace netfold
