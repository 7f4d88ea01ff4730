"""Control calls as BF Runtime Python, the language of bfshell: one script for all calls that wait.

`bfshell -b SCRIPT` runs it with `bfrt` defined (Open Tofino: BF Runtime, "bfrt_python"). What a script
prints behind MARK is its answer; the last thing it prints says that it came to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from p4.codegen.schema import ActionInfo, TableInfo
from p4.targets.names import encode_data, encode_key, take
from p4.targets.target import MatchValue, TargetError

MARK, DONE = "netfold:", "netfold: done"
NODES_PER_GROUP = 1000


def field(name: str) -> str:
    """How BF Runtime Python calls a key or parameter: by its last part."""
    return name.rpartition(".")[2]


def keys(table: TableInfo, match: Mapping[str, MatchValue], priority: int) -> dict[str, int]:
    """A match as arguments. Raises TargetError for what does not fit the key."""
    encode_key(table, match)
    left, out = dict(match), {}
    for info in table.keys:
        name, value = field(info.name), take(info.name, left)
        ones = (1 << info.bits) - 1
        first, second = value if isinstance(value, tuple) else (value, None)
        match info.match_kind:
            case "exact":
                out[name] = first
            case "lpm":
                out[name] = first or 0
                out[f"{name}_p_length"] = (0 if value is None else info.bits) if second is None else second
            case "ternary":
                out[name] = first or 0
                out[f"{name}_mask"] = (0 if value is None else ones) if second is None else second
            case "range":
                out[f"{name}_start"] = first or 0
                out[f"{name}_end"] = (ones if value is None else first) if second is None else second
            case kind:
                raise TargetError(
                    "UNIMPLEMENTED", f"table '{table.name}': keys of kind {kind} on tofino-model"
                )
    if priority:
        out["MATCH_PRIORITY"] = priority
    return {name: int(value or 0) for name, value in out.items()}


def data(action: ActionInfo, values: Mapping[str, int] | Sequence[int]) -> dict[str, int]:
    """Action data as arguments. Raises TargetError for what does not fit the parameters."""
    encode_data(action, values)
    given = (
        values
        if isinstance(values, Mapping)
        else dict(zip([p.name for p in action.params], values, strict=True))
    )
    return {name: int(value) for name, value in given.items()}


def call(path: str, method: str, arguments: Mapping[str, object]) -> str:
    """One line of a script."""
    return f"{path}.{method}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


def group_lines(
    group: int, replicas: Sequence[tuple[int, int]], nodes: Sequence[int]
) -> tuple[list[str], list[int]]:
    """(lines that make a multicast group, its nodes); `nodes` are those it had."""
    lines = []
    if nodes:
        lines.append(call("bfrt.pre.mgid", "delete", {"MGID": group}))
        lines += [call("bfrt.pre.node", "delete", {"MULTICAST_NODE_ID": n}) for n in nodes]
    made = [group * NODES_PER_GROUP + i for i in range(len(replicas))]
    for node, (port, rid) in zip(made, replicas, strict=True):
        arguments = {
            "MULTICAST_NODE_ID": node,
            "MULTICAST_RID": rid,
            "MULTICAST_LAG_ID": [],
            "DEV_PORT": [port],
        }
        lines.append(call("bfrt.pre.node", "add", arguments))
    lines.append(
        call(
            "bfrt.pre.mgid",
            "add",
            {
                "MGID": group,
                "MULTICAST_NODE_ID": made,
                "MULTICAST_NODE_L1_XID_VALID": [False] * len(made),
                "MULTICAST_NODE_L1_XID": [0] * len(made),
            },
        )
    )
    return lines, made


def read_line(path: str, index: str, number: int) -> str:
    """A line that prints an element's fields, each a list with a value for every pipe."""
    get = call(path, "get", {index: number, "from_hw": True, "print_ents": False})
    return f"print({MARK!r}, json.dumps([[str(k), v] for k, v in {get}.data.items()]))"


def script(lines: Sequence[str]) -> str:
    return "\n".join(["import json", *lines, f"print({DONE!r})", ""])


def answers(printed: str) -> list[object]:
    """What a script answered. Raises TargetError if it did not come to its end."""
    lines = [line.strip() for line in printed.splitlines()]
    if DONE not in lines:
        said = [line for line in lines if line and not line.startswith(MARK)]
        raise TargetError("INTERNAL", f"bfshell stopped{': ' + said[-1] if said else ' without a word'}")
    return [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK) and line != DONE]
