"""With this folder on PYTHONPATH a Python process, and every one that it starts, takes the sanitized
extension modules in $NETFOLD_SANITIZED and compiles P4 programs with sanitizers (tests/sim/sanitizing.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from types import ModuleType, SimpleNamespace

FOLDER = os.environ["NETFOLD_SANITIZED"]
FLAGS = (
    *("-O0", "-g1", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
)


class Sanitized:
    """First in sys.meta_path."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in ("sim._native", "sim._network"):
            [file] = [x for x in os.listdir(FOLDER) if x.startswith(name.removeprefix("sim.") + ".")]
            place = os.path.join(FOLDER, file)
            return spec_from_file_location(name, place, loader=ExtensionFileLoader(name, place))
        if name != "p4.codegen.build":
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_set(module: ModuleType) -> None:
            execute(module)
            module.FLAGS += FLAGS
            # The compiler is not ours to check, and ten times slower with a sanitizer's memory.
            unloaded = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            module.subprocess = SimpleNamespace(run=partial(subprocess.run, env=unloaded))

        spec.loader.exec_module = execute_and_set  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Sanitized)  # type: ignore[arg-type]
