"""Networks under AddressSanitizer and UBSan: our C++ and the generated programs, not ns-3."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import nanobind
import pytest

from tests.p4.engine.test_sanitized import preloads

ROOT = Path(__file__).parents[3]
SOURCES = [
    "p4/program.cc", "p4/traffic-manager.cc", "lane-simulator-impl.cc",
    "stock/ethernet-link.cc", "stock/p4-switch.cc", "stock/flow.cc", "stock/network.cc", "stock/readable.cc",
    "stock/module.cpp",
]  # fmt: skip
FLAGS = ["-std=c++20", "-O1", "-g1", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize=vptr"]


def build_module(folder: Path) -> Path:
    """sim._network, all in one library, with sanitizers. About two minutes."""
    spec = find_spec("ns3")
    assert spec is not None and spec.submodule_search_locations
    wheel = Path(spec.submodule_search_locations[0])
    binder = Path(nanobind.source_dir())
    headers = [wheel / "include", Path(nanobind.include_dir()), Path(sysconfig.get_path("include"))]
    headers.append(binder.parent / "ext" / "robin_map" / "include")
    include = [x for folder_ in headers for x in ("-isystem", str(folder_))]
    objects = []
    for source in [*(ROOT / "sim" / "native" / name for name in SOURCES), binder / "nb_combined.cpp"]:
        made = folder / f"{source.name}.o"
        plain = (
            ["-O1", "-fPIC", "-std=c++20", "-DNB_COMPACT_ASSERTIONS"] if source.parent == binder else FLAGS
        )
        subprocess.run(["g++", *plain, *include, "-c", str(source), "-o", str(made)], check=True)
        objects.append(str(made))
    module = folder / f"_network{sysconfig.get_config_var('EXT_SUFFIX')}"
    libraries = [
        str(wheel / "lib64" / f"libns3.44-{name}.so")
        for name in ("core", "network", "internet", "applications", "internet-apps")
    ]
    rest = [f"-Wl,-rpath,{wheel / 'lib64'}", "-Wl,--allow-shlib-undefined", "-ldl", "-o", str(module)]
    subprocess.run(
        ["g++", "-shared", "-fsanitize=address,undefined", *objects, *libraries, *rest], check=True
    )
    return module


@pytest.mark.slow
def test_small_networks_are_clean(tmp_path: Path) -> None:
    module = build_module(tmp_path)
    environment = {
        **os.environ, "LD_PRELOAD": preloads(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("under_sanitizers.py")), str(module)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "survived", done.stderr[-3000:]
    assert "runtime error" not in done.stderr, done.stderr[-3000:]
