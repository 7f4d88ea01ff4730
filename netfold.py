"""The `netfold` command: a front door that collects the rooms' commands. No logic lives here."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module, metadata
from typing import NoReturn

from workloads.errors import InputError

ROOMS = ("workloads", "analysis", "p4")


class OneLineParser(argparse.ArgumentParser):
    """argparse whose complaints are one line with exit status 2, like every other bad input."""

    def error(self, message: str) -> NoReturn:
        where = self.prog.removeprefix("netfold").strip()
        hint = f"; see `{self.prog} --help`"
        self.exit(2, f"netfold: error: {where + ': ' if where else ''}{' '.join(message.split())}{hint}\n")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, every room's commands included."""
    parser = OneLineParser(prog="netfold", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--version", action="version", version=f"netfold {metadata.version('netfold')}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for room in ROOMS:
        import_module(f"{room}.cli").add_commands(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command. Exit status 0 done, 2 bad input, 130 interrupted."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except InputError as error:
        print(f"netfold: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("netfold: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`netfold ... | head`): silence the flush at exit and stop.
        sys.stderr.close()
        return 141


if __name__ == "__main__":
    sys.exit(main())
