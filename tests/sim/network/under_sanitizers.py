"""Run by test_network_sanitized.py with libasan preloaded; argv[1] is the sanitized module. Small networks
of every kind of flow, faults, multicast, and programs that are stopped; prints "survived" at the end."""

import importlib.util
import sys
import tempfile
from functools import partial
from pathlib import Path

import sim
from p4.codegen.build import build
from sim.network import programs
from sim.network.run import simulate_network
from sim.network.scenario_io import load_network
from tests.sim.network.conftest import EXAMPLES, ROUTER
from workloads.errors import InputError

spec = importlib.util.spec_from_file_location("sim._network", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules["sim._network"] = sim._network = module
programs.build = partial(build, sanitize=True)

FLOWS = """
[[flow]]
from = "h*"
to = "h*"
pattern = "all"
rate_bps = "2Gbps"
off_ns = "50us"
ecn = true
[[flow]]
kind = "echo"
from = "h1"
to = "h0"
interval_ns = "50us"
[[flow]]
kind = "ping"
from = "h2"
to = "h0"
[[flow]]
kind = "tcp"
from = "h*"
to = "h0"
bytes = "100kB"
[[fault]]
links = "*"
loss = 0.02
mean_burst = 2
"""
QUEUES = """
queue_packets = 10
buffer_bytes = "30kB"
ecn_kmin_bytes = "2kB"
ecn_kmax_bytes = "9kB"
pass_rate_pps = "20Mpps"
"""
FLOOD = (
    f'[[switch]]\nprogram = "{EXAMPLES / "l2_switch.p4"}"\n'
    'entries = ["mc_mgrp_create 1", "mc_node_create 0 0 1 2", "mc_node_associate 1 0"]\n'
)
ENDLESS = f'[[switch]]\nprogram = "{Path(__file__).with_name("endless.p4")}"\nentries = "mirroring_add 1 1"\n'


def run(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "network.toml"
        path.write_text(text)
        simulate_network(load_network(path), pcap=("*",), pcap_folder=Path(name) / "pcap")


run('[network]\nhosts = 3\nduration_ns = "1ms"\n' + ROUTER + QUEUES + FLOWS)
run('[network]\nhosts = 3\nduration_ns = "1ms"\narp = "real"\n' + FLOOD + QUEUES + FLOWS)
run('[network]\ntopology = "leaf-spine:2x2"\nhosts = 4\nduration_ns = "1ms"\n' + ROUTER + FLOWS)
for payload in (100, 200, 300, 400):
    try:
        one = f"packet_bytes = {payload}\nbytes = {payload}\n"
        run(f'[network]\nhosts = 2\nduration_ns = "20ms"\n{ENDLESS}[[flow]]\nfrom = "h0"\nto = "h1"\n{one}')
    except InputError as error:
        print(error, file=sys.stderr)
    else:
        sys.exit("it was not stopped")
print("survived")
