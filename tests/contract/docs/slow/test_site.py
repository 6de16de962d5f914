"""The built site: no warnings, a search that finds things, and nothing from another host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.browser import HINT, browser_program, opened_browser
from tests.support.paths import ROOT

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Attributes whose address a browser loads by itself."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        pytest.skip("`make docs` makes the environment that builds the site")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [MKDOCS, "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


class Loaded(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "link" and found.get("rel") in ("canonical", "next", "prev"):
            return
        self.addresses += [found.get(LOADING.get(tag, "")) or "", found.get("srcset") or ""]


def test_no_page_style_or_picture_names_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text("utf-8"))
        assert [each for each in loaded.addresses if urlsplit(each).netloc] == [], page.name
        assert any(loaded.addresses), page.name
    for file in (*site.rglob("*.css"), *site.rglob("*.svg")):
        text = file.read_text("utf-8")
        assert not re.search(r"@import|url\([\"']?(https?:)?//|href=[\"']https?:", text), file.name


@pytest.mark.parametrize("word", ["docker", "telemetry", "windows", "latency"])
def test_the_search_finds_an_answer(site: Path, word: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = [each for each in index["docs"] if word in each["title"].lower()]
    assert any(each["location"].startswith("faq.html#") for each in found)


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_browser_asks_no_other_host_and_its_search_answers(served: str, tmp_path: Path) -> None:
    if browser_program() is None:
        pytest.skip(HINT)
    with opened_browser(tmp_path) as browser:
        browser.window(1200, 900)
        for page in ("comparison.html", "cli.html", "index.html"):
            browser.go(f"{served}/{page}")
            browser.until("[...document.images].every(each => each.complete && each.naturalWidth)")
        browser.run(
            "(field => { field.focus(); field.value = 'telemetry';"
            " field.dispatchEvent(new Event('keyup', { bubbles: true }));"
            " field.dispatchEvent(new Event('input', { bubbles: true })); })"
            "(document.querySelector('[data-md-component=search-query]'))"
        )
        found = "document.querySelector('.md-search-result__list a[href*=\"faq.html\"]')"
        browser.until(found)
        assert {urlsplit(each).netloc for each in browser.asked} <= {urlsplit(served).netloc, ""}
        # `opened_browser` fails if another host was asked.
