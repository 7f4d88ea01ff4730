"""Run by test_bindings.py in a process of its own, as ns-3's bindings take ten seconds to import: argv[1] is
the example, argv[2] where its pcap files go. What it prints is checked there."""

import json
import runpy
import sys
from pathlib import Path

from p4.programs import IPV4
from p4.targets import Engine
from sim.bindings import install_switch, netfold, ns

example = Path(sys.argv[1])
sys.argv = [str(example), sys.argv[2]]
runpy.run_path(str(example), run_name="__main__")
ns.Simulator.Destroy()
told = {}


def refusal(call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        return str(error).strip().splitlines()[-1].strip()
    return "none"


router = Engine.load(IPV4)
nodes = ns.NodeContainer(2)
wire = ns.PointToPointHelper().Install(nodes.Get(0), nodes.Get(1))
told["ppp"] = refusal(install_switch, nodes.Get(0), [wire.Get(0)], router)

# Without ns-3's wait of up to 10 ms before it asks for an address.
still = ns.StringValue("ns3::ConstantRandomVariable[Constant=0]")
ns.Config.SetDefault("ns3::ArpL3Protocol::RequestJitter", still)

# Two stock hosts, FlowMonitor at both, the switch between them.
hosts, middle, cable = ns.NodeContainer(2), ns.NodeContainer(1), netfold.EthernetLinkHelper()
cable.SetChannelAttribute("Delay", ns.StringValue("5us"))
ends = [cable.Install(hosts.Get(i), middle.Get(0)) for i in range(2)]
flood = Engine.load(example.with_name("l2_switch.p4"))
flood.multicast_group(1, [(0, 0), (1, 0)])
helper = netfold.P4SwitchHelper()
helper.SetAttribute("QueueSize", ns.UintegerValue(5))
switch = install_switch(middle.Get(0), [end.Get(1) for end in ends], flood, helper, "middle")
told["ports"] = [switch.GetNPorts(), bool(switch.GetPort(1)), bool(switch.GetPort(2))]
told["taken"] = refusal(switch.AddPort, ends[0].Get(1), 1)
told["big"] = refusal(switch.AddPort, ends[0].Get(1), 511)
ns.InternetStackHelper().Install(hosts)
devices = ns.NetDeviceContainer(ends[0].Get(0))
devices.Add(ends[1].Get(0))
plan = ns.Ipv4AddressHelper(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.0.0.0")).Assign(devices)
ns.PacketSinkHelper(
    "ns3::UdpSocketFactory", ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9).ConvertTo()
).Install(hosts.Get(1))
source = ns.OnOffHelper("ns3::UdpSocketFactory", ns.InetSocketAddress(plan.GetAddress(1), 9).ConvertTo())
source.SetConstantRate(ns.DataRate("100Mbps"), 1000)
source.Install(hosts.Get(0)).Stop(ns.MilliSeconds(20))
monitor = ns.FlowMonitorHelper()
watching = monitor.InstallAll()
ns.Simulator.Stop(ns.MilliSeconds(40))
ns.Simulator.Run()
[flow] = [watching.GetFlowStats()[key] for key in [1]]
told["monitor"] = [
    flow.txPackets,
    flow.rxPackets,
    flow.lostPackets,
    flow.delaySum.GetNanoSeconds() / flow.rxPackets,
]
port = switch.GetCounters(1)
told["counters"] = [port.packets, port.drops, port.maxBacklogBytes]
told["passes"] = switch.GetPasses()
told["time"] = ns.Simulator.Now().GetTimeStep()
ns.Simulator.Destroy()
print(json.dumps(told))
