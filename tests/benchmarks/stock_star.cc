// The yardstick: hosts around one forwarding node on ns-3's own point-to-point devices, queues and packets.
//
// usage: stock_star HOSTS PACKETS PATTERN BYTES      PATTERN: ring (host i sends to i+1) or incast (all send to host 0)
// prints one JSON line: hops, seconds of Simulator::Run(), events, peak resident memory, frames in flight at the peak.
#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <vector>

using namespace ns3;

namespace
{

struct Star
{
    std::vector<Ptr<NetDevice>> host;
    std::vector<Ptr<NetDevice>> port;
    std::vector<uint64_t> sent;
    uint64_t packets{0};
    uint32_t bytes{0};
    bool incast{false};
    uint64_t hops{0};
    uint64_t inFlight{0};
    uint64_t peak{0};

    void Send(uint32_t from)
    {
        // Destination in the packet's own bytes, as a real forwarding node would find it.
        std::vector<uint8_t> payload(bytes, 0);
        const uint32_t to = incast ? 0 : (from + 1) % static_cast<uint32_t>(host.size());
        std::memcpy(payload.data(), &to, sizeof to);
        host[from]->Send(Create<Packet>(payload.data(), bytes), host[from]->GetBroadcast(), 0x0800);
        peak = std::max(peak, ++inFlight);
        if (++sent[from] < packets)
        {
            Simulator::Schedule(PicoSeconds(16'000), &Star::Send, this, from);
        }
    }

    bool Forward(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address& address)
    {
        ++hops;
        uint32_t to = 0;
        packet->CopyData(reinterpret_cast<uint8_t*>(&to), sizeof to);
        port[to]->Send(packet->Copy(), address, protocol);
        return true;
    }

    bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&)
    {
        ++hops;
        --inFlight;
        return true;
    }
};

} // namespace

int
main(int argc, char** argv)
{
    if (argc != 5)
    {
        std::cerr << "usage: stock_star HOSTS PACKETS ring|incast BYTES\n";
        return 2;
    }
    Time::SetResolution(Time::PS);
    Star star;
    const uint32_t hosts = std::stoul(argv[1]);
    star.packets = std::stoull(argv[2]);
    star.incast = std::string(argv[3]) == "incast";
    star.bytes = std::stoul(argv[4]);
    star.sent.resize(hosts);

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
    link.SetChannelAttribute("Delay", StringValue("1us"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000000p"));
    Ptr<Node> center = CreateObject<Node>();
    for (uint32_t i = 0; i < hosts; ++i)
    {
        const NetDeviceContainer devices = link.Install(CreateObject<Node>(), center);
        star.host.push_back(devices.Get(0));
        star.port.push_back(devices.Get(1));
        star.host.back()->SetReceiveCallback(MakeCallback(&Star::Receive, &star));
        star.port.back()->SetReceiveCallback(MakeCallback(&Star::Forward, &star));
    }
    for (uint32_t i = star.incast ? 1 : 0; i < hosts; ++i)
    {
        Simulator::Schedule(PicoSeconds(i), &Star::Send, &star, i);
    }
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << "{\"hops\": " << star.hops << ", \"seconds\": " << seconds << ", \"events\": " << Simulator::GetEventCount()
              << ", \"peak_rss_bytes\": " << usage.ru_maxrss * 1024 << ", \"in_flight\": " << star.peak << "}\n";
    return 0;
}
