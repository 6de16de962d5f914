"""A real browser without a window, driven over a pipe by its own protocol.

Chromium or one of its kin, from CHROMIUM or the PATH.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["FLAGS", "HINT", "Browser", "browser_program", "opened_browser"]

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--disable-gpu", "--hide-scrollbars"),
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
)
"""Without a window, and as root too."""
HINT = "no browser: set CHROMIUM, or install chromium (see bench/README.md)"
SECONDS = 60.0
_AS_3_AND_4 = """
import os, sys
high = [os.dup(int(each)) for each in sys.argv[1:3] for _ in range(4)]
os.dup2(high[3], 3)
os.dup2(high[7], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The protocol wants these numbers."""


def browser_program() -> str | None:
    """Where the browser is, if there is one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)


class Browser:
    """One page of a browser."""

    def __init__(self, requests: int, answers: io.FileIO) -> None:
        self._requests, self._answers = requests, answers
        self._number = 0
        self._left = b""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    _session = ""

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to one command; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            told = self._receive()
            if told.get("id") == self._number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = self._answers.read(1 << 16)
            assert data, "the browser has gone"
            self._left += data
        one, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        told = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until the script's value is true."""
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            if self.run(f"!!({script})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never: {script}\n{self.run('document.body.innerText')}")

    def go(self, url: str) -> None:
        """Opens a page."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def press(self, key: str) -> None:
        """Presses a key that writes nothing."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the page, and which colours its reader likes."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        liked = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[liked])

    def picture(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    @property
    def asked(self) -> list[str]:
        """Every address that was asked for so far."""
        return [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """What the page's scripts and policy complained of."""
        return [
            json.dumps(each["params"])
            for each in self.events
            if each.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
        ]


@contextmanager
def opened_browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in ``folder``.

    Raises:
        SystemExit: there is none.
    """
    program = browser_program()
    if program is None:
        raise SystemExit(HINT)
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    command = [
        program,
        *FLAGS,
        "--no-first-run",
        "--remote-debugging-pipe",
        f"--user-data-dir={folder / 'profile'}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", _AS_3_AND_4, str(theirs_in), str(theirs_out), *command],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    late = threading.Timer(4 * SECONDS, process.kill)  # rather than to wait for it forever
    late.start()
    answers = os.fdopen(ours_in, "rb", buffering=0)
    try:
        yield Browser(ours_out, answers)
    finally:
        late.cancel()
        late.join()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        answers.close()
        os.close(ours_out)
