"""docs/p4.md and docs/p4-programs.md keep their promises: what they show runs, and prints what they say."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from netfold import main
from p4.programs import FOLDER
from p4.targets.pcap import Record, read_pcap, write_pcap
from tests.p4.programs.switchgnn_net import DEFINES

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def block(page: str, language: str) -> str:
    [text] = blocks(page, language)
    return text


def commands(page: str) -> list[tuple[list[str], str]]:
    """Each `netfold` command of a page's one shell block, and the comment behind it."""
    out = []
    for line in block(page, "sh").splitlines():
        command, _, comment = line.partition("  #")
        words = shlex.split(command)
        assert words[:2] == ["netfold", "p4"], line
        out.append((words[1:], comment))
    return out


def test_the_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command of the section, in its order, in an empty folder with the files that it shows."""
    monkeypatch.chdir(tmp_path)
    Path("knock.p4").write_text(block("p4.md", "p4"))
    Path("knock.stf").write_text(block("p4.md", "stf"))
    knock = "000000000001000000000002 1234 0a000007"
    write_pcap(
        Path("in.pcap"), [Record(n, bytes.fromhex(f"{knock} {x}")) for n, x in enumerate(("2a", "00"))]
    )
    ran = []
    for words, comment in commands("p4.md"):
        assert main(words) == 0, words
        shown = capsys.readouterr().out
        ran.append(words[1])
        if words[1] == "trace":
            assert shown == block("p4.md", "text")
        for promised in re.findall('"(.*?)"', comment):
            assert promised in shown
    assert ran == ["check", "test", "show", "show", "trace", "run", "build"]
    assert "<svg" in Path("knock.svg").read_text()
    assert "struct In_block" in Path("knock.cpp").read_text()
    assert list(Path("out").iterdir()) == []  # without a table entry nothing is let through
    Path("entries.stf").write_text(block("p4.md", "stf").splitlines()[0])
    arguments = ["--in", "1=in.pcap", "--out", "out", "--control", "entries.stf"]
    assert main(["p4", "run", "knock.p4", *arguments]) == 0
    assert [r.data[-1] for r in read_pcap(Path("out/port2.pcap"))] == [0]
    for text in blocks("p4.md", "python"):
        exec(compile(text, "docs/p4.md", "exec"), {})


def test_the_programs_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FOLDER, tmp_path / "programs")
    monkeypatch.chdir(tmp_path / "programs")
    macros = [x for name, value in DEFINES.items() for x in ("-D", f"{name}={value}")]
    for words, _ in commands("p4-programs.md"):
        assert main([*words, *macros]) == 0
        assert capsys.readouterr().out


def test_the_programs_page_sets_up_jobs_as_the_stf_files_do() -> None:
    text = (DOCS / "p4-programs.md").read_text()
    shown = [line for part in re.findall(r"```stf\n(.*?)```", text, re.DOTALL) for line in part.splitlines()]
    written = {line for path in FOLDER.glob("*.stf") for line in path.read_text().splitlines()}
    assert len(shown) > 10
    assert set(shown) <= written


def test_the_programs_page_numbers_events_as_the_programs_do() -> None:
    text = (DOCS / "p4-programs.md").read_text()
    for name in ("switchgnn", "atp", "switchml"):
        section = text.split(f"## {name}.p4")[1].split("\n## ")[0].replace("\n", " ")
        [said] = re.findall("`events`: ([^.]*)\\.", section)
        [program] = re.findall("counter\\(8.*// (.*)", (FOLDER / f"{name}.p4").read_text())
        assert [re.sub("^\\d+ ", "", x.strip()) for x in said.split(",")] == program.split(", ")
