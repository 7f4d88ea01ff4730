"""Debian's Chromium without a window, spoken to over its debugging pipe: load a page, read it, see errors."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip

# It reads requests from its descriptor 3 and answers on 4, which may be in use by now: over high ones.
LAUNCH = """
import fcntl, os, sys
given = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 20) for number in sys.argv[1:3]]
for ours, theirs in zip(given, (3, 4)):
    os.dup2(ours, theirs)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page. errors: what the console said or a script threw; asked: addresses the page asked for."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        assert program, "Debian's package chromium is needed; .ci/run installs it"
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.profile = tempfile.mkdtemp(prefix="netfold-chromium-")
        theirs_in, self.out = os.pipe()
        self.incoming, theirs_out = os.pipe()
        options = [*FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), program, *options],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.number = b"", 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", page=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.incoming)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method: str, *, page: bool = False, **params: Any) -> dict[str, Any]:
        """One command's result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if page:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.incoming], [], [], 120)
            assert ready, "Chromium says nothing"
            more = os.read(self.incoming, 1 << 20)
            assert more, "Chromium ended"
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(str(details.get("exception", details).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(one.get("value", one)) for one in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, path: Path) -> None:
        """Load a page and wait until its script says that it is ready."""
        self.call("Page.navigate", page=True, url=path.resolve().as_uri())
        until = time.monotonic() + 60
        while self.run("document.documentElement?.dataset.ready") != "yes":
            assert not self.errors, self.errors
            assert time.monotonic() < until, "the page is not ready after a minute"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        told = self.call(
            "Runtime.evaluate", page=True, expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def dark(self, on: bool) -> None:
        """What the reader's system prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", page=True, features=[feature])

    def screenshot(self, place: Path, *, whole: bool = True) -> bytes:
        """A PNG of the page."""
        told = self.call("Page.captureScreenshot", page=True, format="png", captureBeyondViewport=whole)
        content = base64.b64decode(told["data"])
        place.write_bytes(content)
        return content

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", page=True, printBackground=False)["data"])
