// A full-duplex Ethernet link between two nodes, for stock ns-3: the device has MAC addresses and sends whole Ethernet II
// frames, so ARP, IPv4, IPv6, bridges, P4 switches and pcap files work as on a real cable. ns-3's own PointToPoint speaks
// PPP, which no P4 program parses, and its CSMA is a shared half-duplex bus.
#ifndef NETFOLD_ETHERNET_LINK_H
#define NETFOLD_ETHERNET_LINK_H

#include "ns3/callback.h"
#include "ns3/channel.h"
#include "ns3/data-rate.h"
#include "ns3/mac48-address.h"
#include "ns3/net-device-container.h"
#include "ns3/net-device.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/object-factory.h"
#include "ns3/queue-fwd.h"
#include "ns3/traced-callback.h"
#include "ns3/trace-helper.h"

#include <array>
#include <string>

namespace ns3
{
class ErrorModel;
class Node;
class Packet;
} // namespace ns3

namespace netfold
{

class EthernetLinkDevice;

// The cable: two ends and a propagation delay (attribute "Delay", default 1 us).
class EthernetLinkChannel : public ns3::Channel
{
  public:
    static ns3::TypeId GetTypeId();

    void Attach(ns3::Ptr<EthernetLinkDevice> device);
    std::size_t GetNDevices() const override;
    ns3::Ptr<ns3::NetDevice> GetDevice(std::size_t i) const override;

    // The frame leaves `sender` now and its last bit is at the other end `duration` + delay later.
    void Transmit(ns3::Ptr<const ns3::Packet> frame, const EthernetLinkDevice* sender, ns3::Time duration);

    void DoDispose() override;

  private:
    ns3::Time m_delay;
    std::array<ns3::Ptr<EthernetLinkDevice>, 2> m_ends;
    std::size_t m_used{0};
};

/*
 * One end of the link. Attributes: DataRate (10 Gb/s), Mtu (1500 bytes), WireOverhead (24 bytes a frame: preamble, start
 * delimiter, FCS and the least gap, IEEE 802.3), TxQueue (a DropTailQueue), ReceiveErrorModel (none). Trace sources as
 * ns-3's CSMA device has them: MacTx, MacTxDrop, MacRx, MacPromiscRx, PhyTxBegin, PhyRxEnd, PhyRxDrop, Sniffer,
 * PromiscSniffer. Frames below Ethernet's least size are not padded: a P4 program reads what the sender wrote.
 */
class EthernetLinkDevice : public ns3::NetDevice
{
  public:
    static ns3::TypeId GetTypeId();

    EthernetLinkDevice();
    ~EthernetLinkDevice() override;

    bool Attach(ns3::Ptr<EthernetLinkChannel> channel);
    void SetQueue(ns3::Ptr<ns3::Queue<ns3::Packet>> queue);
    ns3::Ptr<ns3::Queue<ns3::Packet>> GetQueue() const;
    void SetReceiveErrorModel(ns3::Ptr<ns3::ErrorModel> model);

    // How long a frame of `bytes` (header included, FCS not) keeps the transmitter busy.
    ns3::Time GetFrameTime(std::uint32_t bytes) const;
    ns3::DataRate GetDataRate() const;
    std::uint32_t GetWireOverhead() const;

    // For switches, which have queues of their own and keep to GetFrameTime: whole frames out at once, and whole frames in
    // past the address filter and ns-3's protocol handlers.
    using FrameCallback = ns3::Callback<void, ns3::Ptr<const ns3::Packet>>;
    void SendFrame(ns3::Ptr<const ns3::Packet> frame);
    void SetFrameCallback(FrameCallback callback);

    void Receive(ns3::Ptr<ns3::Packet> frame);

    // --- ns3::NetDevice ---
    void SetIfIndex(const std::uint32_t index) override;
    std::uint32_t GetIfIndex() const override;
    ns3::Ptr<ns3::Channel> GetChannel() const override;
    void SetAddress(ns3::Address address) override;
    ns3::Address GetAddress() const override;
    bool SetMtu(const std::uint16_t mtu) override;
    std::uint16_t GetMtu() const override;
    bool IsLinkUp() const override;
    void AddLinkChangeCallback(ns3::Callback<void> callback) override;
    bool IsBroadcast() const override;
    ns3::Address GetBroadcast() const override;
    bool IsMulticast() const override;
    ns3::Address GetMulticast(ns3::Ipv4Address group) const override;
    ns3::Address GetMulticast(ns3::Ipv6Address group) const override;
    bool IsBridge() const override;
    bool IsPointToPoint() const override;
    bool Send(ns3::Ptr<ns3::Packet> packet, const ns3::Address& dest, std::uint16_t protocol) override;
    bool SendFrom(ns3::Ptr<ns3::Packet> packet,
                  const ns3::Address& source,
                  const ns3::Address& dest,
                  std::uint16_t protocol) override;
    ns3::Ptr<ns3::Node> GetNode() const override;
    void SetNode(ns3::Ptr<ns3::Node> node) override;
    bool NeedsArp() const override;
    void SetReceiveCallback(ReceiveCallback callback) override;
    void SetPromiscReceiveCallback(PromiscReceiveCallback callback) override;
    bool SupportsSendFrom() const override;

  protected:
    void DoDispose() override;

  private:
    bool Enqueue(ns3::Ptr<ns3::Packet> frame);
    void TransmitNext();
    void Transmit(ns3::Ptr<const ns3::Packet> frame, ns3::Time duration);
    void SetDataRate(ns3::DataRate rate);

    ns3::Ptr<ns3::Node> m_node;
    ns3::Ptr<EthernetLinkChannel> m_channel;
    ns3::Ptr<ns3::Queue<ns3::Packet>> m_queue;
    ns3::Ptr<ns3::ErrorModel> m_errors;
    ns3::Mac48Address m_address;
    ns3::DataRate m_rate;
    std::uint32_t m_overhead{24};
    std::uint32_t m_ifIndex{0};
    std::uint16_t m_mtu{1500};
    ns3::Time m_freeAt;
    bool m_waiting{false}; // a TransmitNext is scheduled
    FrameCallback m_frameCallback;
    ReceiveCallback m_receive;
    PromiscReceiveCallback m_promisc;
    ns3::TracedCallback<> m_linkChange;

    using PacketTrace = ns3::TracedCallback<ns3::Ptr<const ns3::Packet>>;
    PacketTrace m_macTx, m_macTxDrop, m_macRx, m_macPromiscRx, m_phyTxBegin, m_phyRxEnd, m_phyRxDrop;
    PacketTrace m_sniffer, m_promiscSniffer;
};

/*
 * Installs links, as PointToPointHelper does, and writes pcap files (link type Ethernet):
 *
 *     EthernetLinkHelper links;
 *     links.SetDeviceAttribute("DataRate", StringValue("25Gbps"));
 *     links.SetChannelAttribute("Delay", StringValue("1us"));
 *     NetDeviceContainer ends = links.Install(host, leaf);
 *     links.EnablePcap("trace", ends, true);
 */
class EthernetLinkHelper : public ns3::PcapHelperForDevice
{
  public:
    EthernetLinkHelper();

    void SetQueue(const std::string& type); // "ns3::DropTailQueue" and the like
    void SetQueueAttribute(const std::string& name, const ns3::AttributeValue& value); // "MaxSize"
    void SetDeviceAttribute(const std::string& name, const ns3::AttributeValue& value);
    void SetChannelAttribute(const std::string& name, const ns3::AttributeValue& value);
    // Hosts' traffic control layers see the queue (on, as with ns-3's own helpers): Ipv4AddressHelper then puts its
    // default queue disc above it.
    void DisableFlowControl();

    ns3::NetDeviceContainer Install(ns3::Ptr<ns3::Node> a, ns3::Ptr<ns3::Node> b) const;
    ns3::NetDeviceContainer Install(const ns3::NodeContainer& two) const;

  private:
    ns3::Ptr<EthernetLinkDevice> MakeEnd(ns3::Ptr<ns3::Node> node) const;
    void EnablePcapInternal(std::string prefix,
                            ns3::Ptr<ns3::NetDevice> device,
                            bool promiscuous,
                            bool explicitFilename) override;

    ns3::ObjectFactory m_queue, m_device, m_channel;
    bool m_flowControl{true};
};

} // namespace netfold

#endif
