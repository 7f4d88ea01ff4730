"""`make bench`: every benchmark's table, one after the other on an otherwise idle machine.

Each script also runs alone (`python tests/benchmarks/bench_sim.py`); figures are ratios within one run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the scripts named on the command line (`sim plan`), all of them by default."""
    folder = Path(__file__).parent
    scripts = {path.stem.removeprefix("bench_"): path for path in sorted(folder.glob("bench_*.py"))}
    unknown = [name for name in sys.argv[1:] if name not in scripts]
    if unknown:
        print(f"benchmarks: no {unknown[0]!r}; there are {', '.join(scripts)}", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or scripts:
        print(f"== {name}", flush=True)
        status = subprocess.run(
            [sys.executable, str(scripts[name])], check=False, cwd=folder.parents[1]
        ).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
