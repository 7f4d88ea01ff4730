"""The scapy layer and the Wireshark dissector see in any packet what numpy sees."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lupa import LuaRuntime
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from emulator import wire
from emulator.dissector import lua
from emulator.wire import Netfold
from p4.targets.pcap import Record, write_pcap

AGG = [f.name for f in wire.LAYOUT.headers["agg"]]
TYPES = dict(wire.LAYOUT.enums["packet_type_t"])

# As much of Wireshark's Lua API as a dissector of plain fields needs; `found` collects what it shows.
FAKE_WIRESHARK = """
found = { fields = {}, values = {}, experts = {}, ports = {} }
base = { DEC = "dec" }
expert = { group = { MALFORMED = 1, PROTOCOL = 2 }, severity = { ERROR = 1, WARN = 2 } }
ProtoExpert = { new = function(name) return name end }
ProtoField = setmetatable({}, { __index = function(_, kind)
    return function(abbreviation, name, display, names, mask)
        return { kind = kind, abbreviation = abbreviation, mask = mask, names = names }
    end
end })
function Proto(name) return { name = name, fields = {} } end
DissectorTable = { get = function(which)
    return { add = function(_, port, proto) found.ports[which .. ":" .. port] = proto end }
end }
local function slice(bytes, from, size)
    if size < 0 or from < 0 or from + size > #bytes then error("Range is out of bounds") end
    local part = { bytes = bytes:sub(from + 1, from + size) }
    function part:uint()
        local n = 0
        for i = 1, #self.bytes do n = n * 256 + self.bytes:byte(i) end
        return n
    end
    return part
end
local function branch()
    return {
        add = function(self, what, part, text)
            if what.name ~= nil then return branch() end
            local n = part:uint()
            if what.kind:sub(1, 3) == "int" then
                local bits = tonumber(what.kind:sub(4))
                if n >= 2 ^ (bits - 1) then n = n - 2 ^ bits end
            end
            local size = tonumber(what.kind:match("%d+$") or 8)
            if size ~= 8 * #part.bytes then error("field of another size: " .. what.abbreviation) end
            if what.mask then
                n = n & what.mask
                local mask = what.mask
                while mask & 1 == 0 do n = n >> 1; mask = mask >> 1 end
            end
            if what.abbreviation == "netfold.values" then
                table.insert(found.values, math.tointeger(n))
            else
                found.fields[what.abbreviation] = math.tointeger(n)
            end
            return branch()
        end,
        add_proto_expert_info = function(_, name) table.insert(found.experts, name) end,
    }
end
function dissect(bytes)
    found.fields, found.values, found.experts = {}, {}, {}
    local buffer = setmetatable({ len = function() return #bytes end },
        { __call = function(_, from, size) return slice(bytes, from or 0, size or #bytes) end })
    local pinfo = { cols = {} }
    local used = found.ports["udp.port:9000"].dissector(buffer, pinfo, branch())
    return used, pinfo.cols.info
end
"""


class Dissector:
    """The generated Lua in a Lua interpreter under the fake above."""

    def __init__(self) -> None:
        self.runtime = LuaRuntime(encoding="latin-1")
        self.runtime.execute(FAKE_WIRESHARK)
        self.runtime.execute(lua())

    def __call__(self, payload: bytes) -> dict[str, Any]:
        used, info = self.runtime.globals().dissect(payload.decode("latin-1"))
        found = self.runtime.globals().found
        return {
            "used": used,
            "info": info,
            "fields": {k.removeprefix("netfold."): v for k, v in found["fields"].items()},
            "values": list(found["values"].values()),
            "experts": list(found["experts"].values()),
        }


@pytest.fixture(scope="module")
def dissector() -> Dissector:
    return Dissector()


def numpy_fields(frame: np.ndarray) -> dict[str, int]:
    return {
        name: int(wire.get(frame, "agg", name)[0] if name in wire.BITS["agg"] else frame["agg"][name][0])
        for name in AGG
    }


def frame_of(payload: bytes) -> np.ndarray:
    """A valid frame around 140 bytes of aggregation header and values."""
    frame = wire.blank(1)
    frame.view(np.uint8)[wire.OFFSETS["agg"] :] = np.frombuffer(payload, np.uint8)
    frame["ipv4"]["src"], frame["ipv4"]["dst"] = 0x0A000001, 0x0A000002
    wire.seal(frame)
    return frame


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=140, max_size=140))
def test_numpy_scapy_and_lua_agree_on_any_packet(dissector, payload):
    frame = frame_of(payload)
    packet = Ether(frame.tobytes())
    layer = packet[Netfold]
    shown = dissector(payload)
    expected = numpy_fields(frame)
    assert {name: getattr(layer, name) for name in AGG} == expected
    assert shown["fields"] == expected
    assert layer.values == frame["values"][0].tolist() == shown["values"]
    assert shown["used"] == 140
    assert shown["experts"] == ([] if expected["type"] in TYPES.values() else ["netfold.unknown"])
    packet = packet.copy()
    del packet[IP].chksum  # scapy computes it anew
    assert bytes(packet) == frame.tobytes()


@settings(deadline=None)
@given(
    kind=st.sampled_from(sorted(TYPES)),
    vertex=st.integers(0, 2**32 - 1),
    worker=st.integers(0, 2**16 - 1),
    resend=st.integers(0, 1),
    values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=30),
)
def test_what_scapy_builds_numpy_reads(kind, vertex, worker, resend, values):
    layer = Netfold(type=kind, vertex=vertex, worker=worker, resend=resend, values=values)
    raw = bytes(Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IP(src="10.0.0.1") / UDP() / layer)
    frame = np.frombuffer(raw, wire.FRAME)
    assert wire.valid(frame, len(raw)).all()
    assert frame["agg"]["type"] == TYPES[kind]
    assert (frame["agg"]["vertex"][0], frame["agg"]["worker"][0]) == (vertex, worker)
    assert wire.get(frame, "agg", "resend")[0] == resend
    assert frame["values"][0].tolist() == values + [0] * (30 - len(values))
    assert frame["udp"]["checksum"][0] == 0


def test_scapy_refuses_too_many_values():
    with pytest.raises(ValueError, match=r"31 given, a packet carries 30"):
        Netfold(values=[0] * 31)


def test_scapy_leaves_other_ports_alone():
    frame = frame_of(bytes(140))
    frame["udp"]["dst"] = 9001
    assert Netfold not in Ether(frame.tobytes())


@settings(deadline=None)
@given(st.binary(max_size=139))
def test_a_short_packet_is_called_malformed(dissector, payload):
    shown = dissector(payload)
    assert (shown["experts"], shown["fields"], shown["used"]) == (["netfold.short"], {}, len(payload))


def test_the_info_column_names_the_packet(dissector):
    payload = bytes(Netfold(type="result", vertex=5, worker=3, count=7, round=2))
    assert dissector(payload)["info"] == "result job 0 block 0 round 2 vertex 5 chunk 0 worker 3 count 7"


def test_the_module_prints_the_dissector():
    out = subprocess.run(
        [sys.executable, "-m", "emulator.dissector"], capture_output=True, text=True, check=True
    )
    assert out.stdout == lua()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark on PATH")
def test_tshark_shows_what_numpy_sees(tmp_path):
    payloads = [np.random.default_rng(seed).bytes(140) for seed in range(50)]
    frames = [frame_of(payload) for payload in payloads]
    write_pcap(tmp_path / "seen.pcap", [Record(1, frame.tobytes()) for frame in frames])
    (tmp_path / "netfold.lua").write_text(lua(), encoding="utf-8")
    columns = [argument for name in (*AGG, "values") for argument in ("-e", f"netfold.{name}")]
    out = subprocess.run(
        ["tshark", "-r", "seen.pcap", "-X", "lua_script:netfold.lua", "-T", "fields", *columns],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    number = {"True": 1, "False": 0}  # of one bit, in later versions
    for line, frame in zip(out.stdout.splitlines(), frames, strict=True):
        *shown, values = line.split("\t")
        assert [number.get(text) if text in number else int(text) for text in shown] == [
            numpy_fields(frame)[name] for name in AGG
        ]
        assert [int(value) for value in values.split(",")] == frame["values"][0].tolist()
