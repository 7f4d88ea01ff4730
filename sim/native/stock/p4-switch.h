// A P4 program as a switch of stock ns-3: frames come in by ordinary NetDevices, go through the compiled pipeline between the
// traffic manager's queues (../p4/traffic-manager.h), and leave by ordinary NetDevices.
//
// The program's library and its engine come from Python (p4.targets.Engine), which fills tables, groups and registers
// before and during the run; `engine.library_path` and `engine.address` are what SetProgram takes.
#ifndef NETFOLD_P4_SWITCH_H
#define NETFOLD_P4_SWITCH_H

#include "ns3/net-device-container.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/nstime.h"
#include "ns3/object-factory.h"
#include "ns3/object.h"
#include "ns3/traced-callback.h"

#include <cstdint>
#include <memory>
#include <string>

namespace netfold
{

// What a port did; all but the peaks since the start.
struct P4SwitchPort
{
    std::uint64_t packets; // transmitted
    std::uint64_t bytes;   // ... without wire overhead
    std::uint64_t drops;   // by a full queue or buffer
    std::uint64_t marks;   // ECN
    std::uint64_t maxBacklogBytes;
};

// Packets that went no further, by what let go of them, since the start.
struct P4SwitchDrops
{
    std::uint64_t program; // a pass left nothing of them: mark_to_drop(), a multicast group without members
    std::uint64_t queue;   // full queue or buffer, of any port, one that recirculates too
    std::uint64_t nowhere; // sent to a port without a device
};

/*
 * Aggregated to a node, whose devices become its ports: AddPort(device) gives the first number 0, the next 1, and so on, or
 * the number that is asked for. Devices must carry whole Ethernet frames: netfold::EthernetLinkDevice (full duplex, frames
 * as they are), or any device that supports SendFrom (CSMA, SimpleNetDevice, a bridge's), whose header is put together from
 * what it hands up. ns-3's PointToPointNetDevice speaks PPP and is refused.
 *
 * The rate of a port is its device's "DataRate" (a CSMA device's: its channel's), so that packets wait here, in eight
 * priorities, where enq_qdepth and deq_qdepth say how many; a device without one lets everything through at once.
 *
 * Attributes (units in the help texts): QueueSize (1000 packets a priority), BufferSize (0, no limit), IngressLatency (200
 * ns), EgressLatency (200 ns), PassRate (0, no limit), RecirculationRate (100 Gb/s), EcnMin and EcnMax (0, no marking),
 * EcnProbability (0.1), MaxRounds (10,000). Set them before the first packet. Trace sources: Receive and Transmit
 * (packet, port), Drop (port). "Name" is the switch's in messages.
 *
 * Time's resolution must be picoseconds (Time::SetResolution(Time::PS) before anything else; sim.bindings does it). A program
 * that never ends with a packet is stopped: Simulator::Run() ends by a std::runtime_error that names program, port and time.
 */
class P4Switch : public ns3::Object
{
  public:
    static ns3::TypeId GetTypeId();

    P4Switch();
    ~P4Switch() override;

    // `library` and `engine`: of p4.targets.Engine, which must live as long as this. `name` is the program's, for messages.
    // Throws std::runtime_error if the library is not loaded in this process.
    void SetProgram(const std::string& library, std::uintptr_t engine, const std::string& name = "");

    // Throw std::invalid_argument for a device that cannot carry Ethernet frames and for a number that is taken.
    std::uint32_t AddPort(ns3::Ptr<ns3::NetDevice> device);
    std::uint32_t AddPort(ns3::Ptr<ns3::NetDevice> device, std::uint32_t port);
    std::uint32_t GetNPorts() const;
    ns3::Ptr<ns3::NetDevice> GetPort(std::uint32_t port) const; // nullptr if there is none

    using FrameTracedCallback = void (*)(ns3::Ptr<const ns3::Packet> frame, std::uint32_t port);
    using DropTracedCallback = void (*)(std::uint32_t port);

    P4SwitchPort GetCounters(std::uint32_t port) const;
    P4SwitchDrops GetDrops() const;
    std::uint64_t GetBacklogBytes(std::uint32_t port) const;
    // The longest backlog since the last call.
    std::uint64_t TakePeakBytes(std::uint32_t port);
    std::uint64_t GetPasses() const;            // through ingress or egress
    std::uint64_t GetRecirculatedPasses() const; // beyond a packet's first

  protected:
    void DoDispose() override;

  private:
    class Core;
    friend class Core;

    std::unique_ptr<Core> m_core;
    ns3::TracedCallback<ns3::Ptr<const ns3::Packet>, std::uint32_t> m_receive, m_transmit;
    ns3::TracedCallback<std::uint32_t> m_drop;

    std::string m_name;
    std::uint32_t m_queuePackets{0};
    std::uint64_t m_bufferBytes{0};
    ns3::Time m_ingressLatency, m_egressLatency;
    double m_passRate{0};
    std::uint64_t m_recirculationBps{0};
    double m_ecnMin{0}, m_ecnMax{0}, m_ecnProbability{0};
    std::uint32_t m_maxRounds{0};
    std::uint64_t m_seed{1};
};

/*
 * Makes nodes P4 switches, as BridgeHelper makes them bridges:
 *
 *     P4SwitchHelper switches;
 *     switches.SetAttribute("QueueSize", UintegerValue(64));
 *     Ptr<P4Switch> leaf = switches.Install(node, devices, library, engine);
 */
class P4SwitchHelper
{
  public:
    P4SwitchHelper();

    void SetAttribute(const std::string& name, const ns3::AttributeValue& value);
    ns3::Ptr<P4Switch> Install(ns3::Ptr<ns3::Node> node,
                               const ns3::NetDeviceContainer& ports,
                               const std::string& library,
                               std::uintptr_t engine,
                               const std::string& name = "") const;

  private:
    ns3::ObjectFactory m_switch;
};

} // namespace netfold

#endif
