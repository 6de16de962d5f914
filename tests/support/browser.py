"""A headless browser, driven over a pipe by the DevTools protocol.

The browser is Chromium or a relative, from CHROMIUM or the PATH. Tests start browsers here only.

Chromium calls its maker at start, and no set of flags stops all of those calls. The browser
therefore has two proxies, and both refuse every request. The first proxy takes the calls of the
browser. The second proxy takes the calls of the page's profile, and records them. Only loopback
is reached directly. `opened_browser` fails if the page asked a host through its proxy.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socketserver
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless", "--disable-gpu", "--hide-scrollbars"),
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
    *("--no-first-run", "--no-default-browser-check", "--disable-default-apps"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # WebRTC sends UDP past every proxy unless it is told not to.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_LOOPBACK = "<-loopback>;127.0.0.1;localhost;[::1]"
"""Hosts without a proxy. Chromium's own list also has the link-local addresses."""
_MAKER = (".google.com", ".googleapis.com", ".gstatic.com", ".gvt1.com")
"""A page's profile calls these too, to fill in forms for example. Such a host counts as the page's
only if the DevTools protocol reports a request of the page to it."""
HINT = "no browser found: install chromium, or set CHROMIUM to its path (see bench/README.md)"
SECONDS = 60.0
_AS_3_AND_4 = """
import os, sys
high = [os.dup(int(each)) for each in sys.argv[1:3] for _ in range(4)]
os.dup2(high[3], 3)
os.dup2(high[7], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The protocol uses the file descriptors 3 and 4."""


def browser_program() -> str | None:
    """The browser's path, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)


class _Refusal(socketserver.StreamRequestHandler):
    """Records the host of a request to a proxy, and refuses the request."""

    timeout = SECONDS
    server: _Proxy

    def handle(self) -> None:
        with suppress(OSError):
            words = self.rfile.readline(1 << 16).decode("latin-1").split()
            if len(words) > 1:
                address = words[1] if "://" in words[1] else f"//{words[1]}"
                self.server.refused.append(urlsplit(address).hostname or address)
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


class _Proxy(socketserver.ThreadingTCPServer):
    """A proxy that refuses every request, and keeps the hosts that were asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Refusal)
        self.refused: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def _refusing() -> Iterator[_Proxy]:
    with _Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class Browser:
    """One page of a browser, in a profile that reaches loopback and ``proxy`` only."""

    def __init__(self, requests: int, answers: io.FileIO, proxy: _Proxy) -> None:
        self._requests, self._answers = requests, answers
        self._refused = proxy.refused
        self._number = 0
        self._left = b""
        self.events: list[dict[str, Any]] = []
        profile = self.send(
            "Target.createBrowserContext", proxyServer=proxy.url, proxyBypassList=_LOOPBACK
        )["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=profile)[
            "targetId"
        ]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    _session = ""

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its answer. Events that arrive meanwhile are kept."""
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
        """Wait until the script's value is true."""
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            if self.run(f"!!({script})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never: {script}\n{self.run('document.body.innerText')}")

    def go(self, url: str) -> None:
        """Open a page."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def press(self, key: str) -> None:
        """Press a key that writes nothing."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the page's size in pixels, and the colour scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        liked = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[liked])

    @property
    def clipped(self) -> list[str]:
        """Elements that are shown, and are narrower than their content."""
        found: list[str] = self.run(
            "[...document.querySelectorAll('body, body *:not(input, select, textarea)')]"
            ".filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)"
            ".map(each => `${each.tagName} ${each.id} ${each.scrollWidth}>${each.clientWidth}`)"
        )
        return found

    def picture(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    @property
    def asked(self) -> list[str]:
        """Every address that the page asked for so far."""
        return [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]

    @property
    def outside(self) -> set[str]:
        """Hosts that are not loopback, and that the page asked so far."""
        self.send("Target.getTargets")  # reads the events up to now
        asked = {urlsplit(url).hostname for url in self.asked}
        return {each for each in self._refused if not each.endswith(_MAKER) or each in asked}

    @property
    def complaints(self) -> list[str]:
        """Errors of the page's scripts and violations of its content policy."""
        return [
            json.dumps(each["params"])
            for each in self.events
            if each.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
        ]


_LEAST_CONTRAST = 4.5
"""Of text on its background: WCAG 2.2, level AA."""
_CONTRASTS = """
(() => {
  const parts = (css) => css.match(/[\\d.]+/g).map(Number);
  const light = (css) => parts(css).slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [.2126, .7152, .0722][at], 0);
  const behind = (at) => {
    for (; at; at = at.parentElement) {
      const css = getComputedStyle(at).backgroundColor;
      if ((parts(css)[3] ?? 1) === 1) return css;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const each of document.querySelectorAll("body *:not(:disabled)")) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !each.checkVisibility() || !each.getClientRects().length) continue;
    const [dim, bright] = [light(getComputedStyle(each).color), light(behind(each))]
      .sort((one, other) => one - other);
    found.push([(bright + .05) / (dim + .05), each.textContent.slice(0, 40)]);
  }
  return found;
})()
"""


def check_picture(browser: Browser, width: int, height: int, *, dark: bool) -> None:
    """Check a page's picture: its size and background, no clipped part, and legible text."""
    picture = browser.picture()
    assert struct.unpack(">II", picture[16:24]) == (width, height)
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (int(paper.removeprefix("rgb(").split(",")[0]) < 64) is dark
    assert browser.clipped == []
    contrasts = browser.run(_CONTRASTS)
    assert len(contrasts) > 5
    assert [each for each in contrasts if each[0] < _LEAST_CONTRAST] == []


@contextmanager
def opened_browser(folder: Path) -> Iterator[Browser]:
    """Open a browser with a new profile in ``folder``.

    Raises AssertionError if the page asked a host beyond loopback, SystemExit without a browser.
    """
    with (
        _refusing() as own,
        _refusing() as outside,
        _started(folder, own.url) as (requests, answers),
    ):
        browser = Browser(requests, answers, outside)
        yield browser
        asked = sorted(browser.outside)
        assert not asked, f"the page asked outside hosts: {asked}"


@contextmanager
def _started(folder: Path, proxy: str) -> Iterator[tuple[int, io.FileIO]]:
    """The pipe for requests and the pipe for answers of a browser that runs."""
    program = browser_program()
    if program is None:
        raise SystemExit(HINT)
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    command = [
        program,
        *_FLAGS,
        f"--proxy-server={proxy}",
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
    late = threading.Timer(10 * SECONDS, process.kill)  # a browser that hangs is killed
    late.start()
    answers = os.fdopen(ours_in, "rb", buffering=0)
    try:
        yield ours_out, answers
    finally:
        late.cancel()
        late.join()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        answers.close()
        os.close(ours_out)
