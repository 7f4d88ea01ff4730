"""A Wireshark dissector in Lua, made from the same layout: `python -m emulator.dissector > netfold.lua`.

Use: `wireshark -X lua_script:netfold.lua`, or put the file into Wireshark's personal plugins folder.
Filters are `netfold.type == 3`, `netfold.vertex`, `netfold.values`, and so on by the names of wire.p4.
"""

from __future__ import annotations

from emulator.wire import AGGREGATION_PORT, LAYOUT, VALUES_PER_PACKET
from p4.wire_layout import Field

_VALUE_BYTES = LAYOUT.headers["values"][0].bits // 8
_SUMMARY = ("job", "block", "round", "vertex", "chunk", "worker", "count")  # of the Info column


def _place(fields: tuple[Field, ...]) -> list[tuple[Field, int, int, int]]:
    """For each field: (field, offset of the bytes that hold it, their number, mask or 0)."""
    out = []
    at = 0
    for field in fields:
        first, last = at // 8, (at + field.bits - 1) // 8
        size = last - first + 1
        whole = at % 8 == 0 and field.bits % 8 == 0
        mask = 0 if whole else ((1 << field.bits) - 1) << (size * 8 - at % 8 - field.bits)
        out.append((field, first, size, mask))
        at += field.bits
    return out


def lua() -> str:
    """The dissector's text."""
    agg = _place(LAYOUT.headers["agg"])
    agg_bytes = agg[-1][1] + agg[-1][2]
    total = agg_bytes + _VALUE_BYTES * VALUES_PER_PACKET
    lines = [
        "-- Dissects netfold's aggregation packets. Made from wire.p4 by `python -m emulator.dissector`.",
        'local netfold = Proto("netfold", "netfold in-network aggregation")',
    ]
    for name, members in LAYOUT.enums.items():
        entries = ", ".join(f'[{value}] = "{member}"' for member, value in members)
        lines.append(f"local {name} = {{ {entries} }}")
    lines += ["local f = netfold.fields"]
    for field, _, size, mask in agg:
        if field.bits == 1:
            made = f'ProtoField.bool("netfold.{field.name}", "{field.name}", {size * 8}, nil, 0x{mask:x})'
        else:
            names = field.enum or "nil"
            made = (
                f'ProtoField.uint{size * 8}("netfold.{field.name}", "{field.name}", base.DEC, {names}'
                f"{f', 0x{mask:x}' if mask else ''})"
            )
        lines.append(f"f.{field.name} = {made}")
    lines += [
        f'f.values = ProtoField.int{_VALUE_BYTES * 8}("netfold.values", "value", base.DEC)',
        'local short = ProtoExpert.new("netfold.short", "packet too short", expert.group.MALFORMED,'
        " expert.severity.ERROR)",
        'local unknown = ProtoExpert.new("netfold.unknown", "unknown type", expert.group.PROTOCOL,'
        " expert.severity.WARN)",
        "netfold.experts = { short, unknown }",
        "",
        "function netfold.dissector(buffer, pinfo, tree)",
        '    pinfo.cols.protocol = "netfold"',
        "    local branch = tree:add(netfold, buffer())",
        f"    if buffer:len() < {total} then",
        "        branch:add_proto_expert_info(short)",
        "        return buffer:len()",
        "    end",
    ]
    lines += [f"    branch:add(f.{field.name}, buffer({first}, {size}))" for field, first, size, _ in agg]
    places = {field.name: (first, size) for field, first, size, _ in agg}
    enum = next(field.enum for field, *_ in agg if field.name == "type")
    first, size = places["type"]
    lines += [
        f"    local type = {enum}[buffer({first}, {size}):uint()]",
        "    if type == nil then branch:add_proto_expert_info(unknown) end",
        f"    local values = branch:add(netfold, buffer({agg_bytes}, {total - agg_bytes}), "
        f'"values ({VALUES_PER_PACKET})")',
        f"    for i = 0, {VALUES_PER_PACKET - 1} do",
        f"        values:add(f.values, buffer({agg_bytes} + {_VALUE_BYTES} * i, {_VALUE_BYTES}))",
        "    end",
        '    pinfo.cols.info = (type or "unknown type")',
    ]
    for name in _SUMMARY:
        first, size = places[name]
        lines.append(f'        .. " {name} " .. buffer({first}, {size}):uint()')
    lines += [
        f"    return {total}",
        "end",
        "",
        f'DissectorTable.get("udp.port"):add({AGGREGATION_PORT}, netfold)',
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(lua(), end="")
