"""The browser of the tests: a page reaches loopback, and any other host makes the test fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import HINT, browser_program, opened_browser
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(browser_program() is None, reason=HINT)

ASKING = {
    "picture": '<img src="http://outside.example/x.png">',
    "maker": '<img src="https://fonts.gstatic.com/x.png">',
    "frame": '<iframe src="http://outside.example/"></iframe>',
    "link-local": '<img src="http://169.254.169.254/x.png">',
    "private": '<img src="http://10.1.2.3/x.png">',
    "fetch": "<script>fetch('https://outside.example/').catch(() => {})</script>",
    "socket": "<script>new WebSocket('ws://outside.example/')</script>",
    "beacon": "<script>navigator.sendBeacon('http://outside.example/')</script>",
    "worker": "<script>new Worker(URL.createObjectURL(new Blob("
    "[\"fetch('https://outside.example/')\"])))</script>",
}


def _shown(folder: Path, body: str) -> Path:
    page = folder / "page.html"
    page.write_text(f"<!doctype html><title>page</title><body>{body}</body>")
    return page


def test_a_page_that_asks_nobody_is_shown(tmp_path: Path) -> None:
    page = _shown(tmp_path, "quiet")
    with opened_browser(tmp_path) as browser:
        browser.go(page.as_uri())
        assert browser.run("document.body.innerText") == "quiet"
    assert browser.asked == [page.as_uri()]


@pytest.mark.parametrize("way", ASKING)
def test_a_page_that_asks_an_outside_host_fails(tmp_path: Path, way: str) -> None:
    page, hosts = _shown(tmp_path, ASKING[way]), "example|169|10|fonts"
    with (  # noqa: PT012
        pytest.raises(AssertionError, match=rf"asked outside hosts: .*({hosts})"),
        opened_browser(tmp_path) as browser,
    ):
        browser.go(page.as_uri())
        until(lambda: browser.outside)
