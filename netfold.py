"""The `netfold` command: a front door that collects the rooms' commands. No logic lives here."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from importlib import import_module, metadata
from typing import NoReturn

from workloads.errors import InputError

ROOMS = ("workloads", "analysis", "p4", "emulator")


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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A stray byte of a path, or a micro sign in an ASCII locale, is shown escaped and ends no command.
        sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _interrupt)  # a batch system's way of Ctrl-C
    try:
        args = build_parser().parse_args(argv)
        status = int(args.run(args))
        print(end="", flush=True)
        return status
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
    except OSError as error:  # what a command writes it checks itself, so this is its output: a full disk
        print(f"netfold: error: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        _drop_output()
        return 2


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _drop_output() -> None:
    """What cannot be written would be tried, and complained about, again at exit."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
