"""docs/p4-in-ns3.md keeps its promises: its commands run in their order, and every key it names exists."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from netfold import main
from sim.network.scenario import LISTS, SECTIONS
from tests.sim.network.conftest import EXAMPLES

PAGE = EXAMPLES.parent / "p4-in-ns3.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    copy, commands = blocks("sh")
    assert copy.split()[0] == "cp" and copy.split()[-1] == "."
    for name in copy.split()[1:-1]:
        shutil.copy(PAGE.parents[1] / name, tmp_path)
    [toml] = blocks("toml")
    Path("network.toml").write_text(toml)
    ran = []
    for line in commands.splitlines():
        command, _, comment = line.partition("  #")
        words = shlex.split(command)
        assert words[0] == "netfold"
        assert main(words[1:]) == 0, line
        shown = capsys.readouterr().out
        for promised in re.findall('"(.*?)"', comment):
            assert promised in shown, line
        ran.append(words[1])
    assert ran == ["p4", "run", "run", "run", "show", "scenario"]
    assert sorted(p.name for p in Path("results").iterdir()) == ["network-network"]
    recorded = {p.name for p in Path("recorded/pcap").iterdir()}
    assert recorded == {"h127.pcap", *(f"leaf0-{i}.pcap" for i in range(20))}


def test_the_page_names_every_key() -> None:
    rows = dict(re.findall(r"^\| `\[+(\w+)\]+` \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    for name, cls in (SECTIONS | LISTS).items():
        named = set(re.findall(r"`(\w+)`", rows[name]))
        assert named == {item.name.rstrip("_") for item in fields(cls)}


def test_the_page_names_every_attribute_and_file_of_the_source() -> None:
    source = (EXAMPLES.parents[1] / "sim" / "native" / "stock" / "p4-switch.cc").read_text()
    text = PAGE.read_text()
    for kind, left_out in (("Attribute", {"Name", "Seed"}), ("TraceSource", set())):
        names = set(re.findall(rf'Add{kind}\(\s*"(\w+)"', source))
        assert len(names) >= 3
        assert all(f"`{name}`" in text for name in names - left_out)
