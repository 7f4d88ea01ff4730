"""P4 switches in ns-3's own Python bindings: a bus of two hosts, two switches, two more hosts, pcap files."""

import sys
from pathlib import Path

from p4.targets import Engine
from sim.bindings import install_switch, netfold, ns

out = sys.argv[1] if len(sys.argv) > 1 else "."
hosts, switches = ns.NodeContainer(4), ns.NodeContainer(2)
bus, cable = ns.CsmaHelper(), netfold.EthernetLinkHelper()
bus.SetChannelAttribute("DataRate", ns.StringValue("100Mbps"))
cable.SetDeviceAttribute("DataRate", ns.StringValue("10Gbps"))
on_bus = ns.NodeContainer()
for node in (hosts.Get(0), hosts.Get(1), switches.Get(0)):
    on_bus.Add(node)
lan = bus.Install(on_bus)
trunk = cable.Install(switches.Get(0), switches.Get(1))
ends = [cable.Install(switches.Get(1), hosts.Get(i)) for i in (2, 3)]
ends[1].Get(1).SetAddress(ns.Mac48Address("02:00:00:00:00:03").ConvertTo())
engines = [Engine.load(Path(__file__).with_name("l2_switch.p4")) for _ in range(2)]
ports = [[lan.Get(2), trunk.Get(0)], [trunk.Get(1), ends[0].Get(0), ends[1].Get(0)]]
for i in range(2):
    install_switch(switches.Get(i), ports[i], engines[i], name=f"s{i}")
    engines[i].multicast_group(1, [(port, 0) for port in range(len(ports[i]))])
    engines[i].insert("addresses", {"hdr.ethernet.dst": 0x020000000003}, "forward", {"port": i + 1})
ns.InternetStackHelper().Install(hosts)
devices = ns.NetDeviceContainer()
for device in (lan.Get(0), lan.Get(1), ends[0].Get(1), ends[1].Get(1)):
    devices.Add(device)
plan = ns.Ipv4AddressHelper(ns.Ipv4Address("10.1.1.0"), ns.Ipv4Mask("255.255.255.0")).Assign(devices)
ns.UdpEchoServerHelper(9).Install(hosts.Get(3))
client = ns.UdpEchoClientHelper(plan.GetAddress(3).ConvertTo(), 9)
client.SetAttribute("MaxPackets", ns.UintegerValue(5))
client.SetAttribute("Interval", ns.TimeValue(ns.MilliSeconds(50)))
client.Install(hosts.Get(0))
cable.EnablePcap(f"{out}/p4", switches, True)
ns.Simulator.Stop(ns.Seconds(1))
ns.Simulator.Run()
