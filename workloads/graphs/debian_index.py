"""Read apt `Packages` indices: which packages there are, and the clauses of what they need."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workloads.errors import InputError
from workloads.graphs.formats.stream import open_stream, readable

APT_LISTS = Path("/var/lib/apt/lists")
_FIELDS = {
    "package",
    "version",
    "section",
    "priority",
    "depends",
    "pre-depends",
    "recommends",
    "provides",
    "description",
}
_PRIORITIES = {"required": 0, "important": 1, "standard": 2, "optional": 3, "extra": 4}
# Debian Policy 5.6.1: lower case letters, digits, plus, minus, full stop; apt is lenient about upper case.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.\-]*")


@dataclass
class Package:
    """What the graph needs of one stanza. needs: one tuple of alternative names per dependency clause."""

    name: str
    version: str
    section: str
    priority: int
    summary: str
    needs: list[tuple[str, ...]] = field(default_factory=list)
    provides: list[str] = field(default_factory=list)


def default_indices() -> list[Path]:
    """The `Packages` indices that apt keeps on this machine."""
    found = sorted(APT_LISTS.glob("*_Packages*")) if APT_LISTS.is_dir() else []
    found = [path for path in found if path.is_file() and not path.name.endswith((".diff_Index", ".FAILED"))]
    if not found:
        raise InputError(
            f"build-debian: no Packages index in {APT_LISTS}; run `apt-get update` or name a Packages file"
        )
    return found


def _stanzas(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line of its first field, fields we use) of each stanza; folded lines are joined by a space."""
    with open_stream(path) as stream, readable(path):
        fields: dict[str, str] = {}
        key = ""
        start = 0
        for number, line in enumerate(io.TextIOWrapper(stream, encoding="utf-8", errors="strict"), 1):
            if line.isspace():
                if fields:
                    yield start, fields
                fields, key = {}, ""
            elif line[0] in " \t":
                # Only the first line of a description (the summary) is kept; dependencies may be folded.
                if not fields:
                    raise InputError(f"{path}: line {number}: a continuation line outside a package's stanza")
                if key in _FIELDS and key != "description":
                    fields[key] += " " + line.strip()
            else:
                head, colon, value = line.partition(":")
                if not colon or not head or " " in head:
                    raise InputError(
                        f"{path}: line {number}: {line.strip()[:40]!r} is not a `Field: value` line"
                    )
                if not fields:
                    start = number
                    fields["line"] = ""
                key = head.lower()
                if key in _FIELDS:
                    fields[key] = value.strip()
        if fields:
            yield start, fields


def _names(value: str) -> Iterator[str]:
    """The package names in `a (>= 1) | b:any [amd64]`, version, architecture and profile dropped."""
    for part in value.split("|"):
        match = _NAME.match(part.strip())
        if match:
            yield match.group()


def _clauses(fields: dict[str, str]) -> list[tuple[str, ...]]:
    text = ",".join(fields[key] for key in ("pre-depends", "depends", "recommends") if key in fields)
    return [names for clause in text.split(",") if (names := tuple(_names(clause)))]


def read_index(path: Path) -> Iterator[Package]:
    """The packages of one index. Raises InputError (file, line) when it is none or is damaged."""
    count = 0
    try:
        for line, fields in _stanzas(path):
            name = fields.get("package", "")
            if not _NAME.fullmatch(name):
                raise InputError(
                    f"{path}: line {line}: stanza with package name {name[:40]!r}; not a Packages index?"
                )
            count += 1
            yield Package(
                name,
                fields.get("version", ""),
                fields.get("section", "unknown").rpartition("/")[2] or "unknown",
                _PRIORITIES.get(fields.get("priority", "optional"), 4),
                fields.get("description", ""),
                _clauses(fields),
                [provided for clause in fields.get("provides", "").split(",") for provided in _names(clause)],
            )
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; not a Packages index?") from None
    if not count:
        raise InputError(f"{path}: holds no package; not a Packages index?")


def version_key(version: str) -> tuple[object, ...]:
    """Sorts as Debian compares versions (Policy 5.6.12): epoch, upstream, revision; `~` before the end."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, ""
    return (_part_key(epoch), _part_key(upstream), _part_key(revision))


def _part_key(part: str) -> list[tuple[tuple[int, ...], int, str]]:
    key = []
    for text, digits in re.findall(r"(\D*)(\d*)", part):
        # The end of a part sorts after a tilde and before everything else, letters before other characters.
        order = (*(-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 0x110000 for c in text), 0)
        number = digits.lstrip("0")
        key.append((order, len(number), number))
    return key


def merge(packages: Iterable[Package]) -> dict[str, Package]:
    """One package per name, the highest version where several indices (or architectures) hold it."""
    newest: dict[str, Package] = {}
    for package in packages:
        other = newest.get(package.name)
        if other is None or version_key(package.version) > version_key(other.version):
            newest[package.name] = package
    return dict(sorted(newest.items()))
