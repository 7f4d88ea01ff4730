"""`write_whole`: the file is there whole or not at all, with an ordinary file's mode."""

from __future__ import annotations

import os

import numpy as np
import pytest

from workloads.errors import InputError
from workloads.files import write_whole


def test_the_file_takes_its_name_when_it_is_whole_and_folders_are_made(tmp_path):
    place = tmp_path / "a" / "b" / "file.txt"
    seen = []

    def write(temporary):
        temporary.write_text("half", encoding="utf-8")
        seen.append(place.exists())
        temporary.write_text("whole", encoding="utf-8")

    write_whole(place, write)
    assert seen == [False] and place.read_text(encoding="utf-8") == "whole"
    assert [path.name for path in place.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_is_what_the_umask_leaves(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", lambda temporary: temporary.write_bytes(b"x"))
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_writers_that_go_by_the_suffix_write_there(tmp_path):
    write_whole(tmp_path / "array.npy", lambda temporary: np.save(temporary, np.arange(3)))
    assert np.load(tmp_path / "array.npy").tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_the_older_file_and_nothing_else(error, tmp_path):
    place = tmp_path / "file"
    place.write_text("older", encoding="utf-8")

    def fail(temporary):
        temporary.write_text("half", encoding="utf-8")
        raise error

    with pytest.raises(type(error)):
        write_whole(place, fail)
    assert place.read_text(encoding="utf-8") == "older"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").mkdir()
    for place in (tmp_path / "file" / "below", tmp_path / "folder"):
        with pytest.raises(InputError, match=r"^table: .* cannot be written: \w+") as told:
            write_whole(place, lambda temporary: temporary.write_bytes(b"x"), what="table")
        assert "\n" not in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
