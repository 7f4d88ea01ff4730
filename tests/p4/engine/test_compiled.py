"""A file's library found again: without the front end, and only as long as nothing has changed."""

import shutil
from pathlib import Path

import pytest

from p4.codegen import build
from p4.codegen import compiled as module
from p4.codegen.compiled import check_file, compiled
from p4.lang import P4Error
from p4.targets import Engine
from tests.p4.conftest import v1model

PROGRAM = v1model(
    types='#include "headers.p4"',
    headers="k_t k;",
    parser="state start { p.extract(h.k); transition accept; }",
    deparser="p.emit(h.k);",
    ingress="h.k.x = h.k.x + STEP; s.egress_spec = 1;",
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of two files, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "includes").mkdir()
    (tmp_path / "includes" / "headers.p4").write_text("#define STEP 1\nheader k_t { bit<8> x; }\n")
    path = tmp_path / "program.p4"
    path.write_text(PROGRAM)
    return path


def step(program: Path) -> int:
    with Engine(compiled(program, include=[program.parent / "includes"])) as switch:
        switch.send(0, b"\0")
        return switch.receive()[0].data[0]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The programs that the front end was asked for."""
    asked: list[Path] = []
    plain = module.load_program

    def load(path: Path, **how: object) -> object:
        asked.append(path)
        return plain(path, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "load_program", load)
    return asked


def test_the_second_time_nothing_is_parsed(program: Path, loads: list[Path]) -> None:
    assert (step(program), step(program)) == (1, 1)
    assert loads == [program]


def test_every_change_is_seen(program: Path, loads: list[Path]) -> None:
    headers = program.parent / "includes" / "headers.p4"
    assert step(program) == 1
    headers.write_text(headers.read_text().replace("STEP 1", "STEP 2"))
    assert step(program) == 2
    (program.parent / "headers.p4").write_text(headers.read_text().replace("STEP 2", "STEP 3"))
    assert step(program) == 3  # a file of that name nearer to the program
    (program.parent / "headers.p4").unlink()
    assert step(program) == 2
    program.write_text(PROGRAM.replace("+ STEP", "+ STEP + 4"))
    assert step(program) == 6
    headers.unlink()
    with pytest.raises(P4Error, match="cannot find include file"):
        step(program)


def test_defines_and_the_front_end_are_part_of_it(
    program: Path, loads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = v1model(ingress="s.egress_spec = PORT;")
    program.write_text(text)
    made = [compiled(program, defines={"PORT": port}) for port in ("1", "2", "1")]
    assert made[0] == made[2] != made[1] and len(loads) == 2
    with monkeypatch.context() as patch:
        patch.setattr(module, "_front_end", lambda: "another")
        assert compiled(program, defines={"PORT": "1"}) == made[0]  # the same source, so the same library
    assert len(loads) == 3
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DANOTHER"))  # as the sanitized runs do
    assert compiled(program, defines={"PORT": "1"}) not in made


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"files": 3}', '{"files": {"/nowhere": "x"}}'])
def test_a_damaged_record_or_a_library_that_is_gone(program: Path, loads: list[Path], damage: str) -> None:
    assert step(program) == 1
    for record in (program.parent / "cache" / "netfold" / "p4" / "sources").iterdir():
        record.write_text(damage)
    assert step(program) == 1 and len(loads) == 2
    library = compiled(program, include=[program.parent / "includes"])
    library.unlink()  # the folder stays
    assert step(program) == 1 and len(loads) == 3
    shutil.rmtree(library.parent)
    assert step(program) == 1 and len(loads) == 4


def test_a_valid_program_is_checked_once_and_a_wrong_one_every_time(program: Path, loads: list[Path]) -> None:
    program.write_text(v1model())
    check_file(program)
    check_file(program)
    assert len(loads) == 1
    program.write_text(v1model(ingress="nonsense();"))
    for _ in range(2):
        with pytest.raises(P4Error):
            check_file(program)
    assert len(loads) == 3
