"""The report states its figures, and a real browser shows it and asks no other host."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from bench.attacks.harness import Budget
from bench.attacks.parts import Scope
from bench.attacks.run import DATA_SETS, Place, measure
from bench.report.__main__ import write
from bench.report.page import costs_of_levels, leaks
from tests.support.browser import HINT, Browser, browser_program, opened_browser
from tests.support.paths import MODELS, ROOT
from tests.support.shared_data import shared_data

FEW = Budget(
    sentences=20,
    words=5_000,
    repeated=(0, 0),
    reviews=(60, 2, 40),
    posts=(0, 0),
    messages=0,
)
LITTLE = Scope(("pct2t.v2",), ("balanced",), rest=False)


@pytest.fixture(scope="module")
def result(bundle_folder: Path) -> dict[str, Any]:
    """A real run of very little."""
    data = shared_data(*DATA_SETS)
    found = measure(Place(bundle_folder, MODELS, data, FEW), LITTLE)
    # What takes long stands in from what does not: the page must have its pictures and tables too.
    row = found["rows"][0]
    inferred = {**row, "attack": "gender", "majority": 0.5}
    found["clear"]["rows"] = [{**row, "level": "clear"}, {**inferred, "level": "clear"}]
    return {**found, "rows": [*found["rows"], inferred], "quick": True}


@pytest.fixture(scope="module")
def page(result: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(json.loads(json.dumps(result)), tmp_path_factory.mktemp("report"))


def _recovered(result: dict[str, Any]) -> str:
    """Of our default, by the strongest attack on released words."""
    rows = [row for row in result["strongest"] if row["sees"] == "word"]
    strongest = {row["mechanism"]: row for row in rows}
    return f"{strongest['pct2t.v2']['success']:.2f}"


class _Page(HTMLParser):
    """Tags with their attributes, in order."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def test_the_page_is_one_file_and_reads_without_eyes(page: Path) -> None:
    read = _Page(page)
    images = read.all("img")
    assert len(images) == len(list(page.parent.glob("*.png"))) >= 4
    for image in images:
        assert (image["src"] or "").startswith("data:image/png;base64,")
        assert len(image["alt"] or "") > 30
    assert not read.all("script")
    assert not read.all("link")
    assert not [tag for tag in read.tags if "://" in str(tag[1])]
    assert "url(" not in page.read_text(encoding="utf-8")
    assert len(read.all("caption")) == len(read.all("details")) >= 3
    assert [attributes for attributes in read.all("meta") if attributes.get("name") == "viewport"]


def test_the_page_holds_what_was_measured(page: Path, result: dict[str, Any]) -> None:
    text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    assert result["bundle"] in text
    (said,) = costs_of_levels(result)
    assert said in text
    assert f"recovers {100 * float(_recovered(result)):.0f} of 100 protected words" in text
    assert "What the policy lets pass leaves as it was typed" in text  # of docs/privacy.md


def _blue(pixels: Any) -> float:
    """The share of blue pixels."""
    return float((pixels[..., 2] > pixels[..., 0] + 0.3).mean())


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if browser_program() is None:
        pytest.skip(HINT)
    with opened_browser(tmp_path) as opened:
        opened.window(1_000, 9_000)
        yield opened


def _pixels(browser: Browser) -> Any:
    return matplotlib.image.imread(io.BytesIO(browser.picture()))[..., :3]


def test_a_real_browser_shows_every_picture_and_asks_nobody(page: Path, browser: Browser) -> None:
    browser.go(page.as_uri())
    pixels = _pixels(browser)
    assert pixels.shape[:2] == (9_000, 1_000)
    widths = browser.run("[...document.images].map(each => each.naturalWidth)")
    assert len(widths) == page.read_text(encoding="utf-8").count("<img ")
    assert all(width > 300 for width in widths)
    # Text has few shades. The pictures have colours, among them blue.
    browser.run("for (const each of [...document.images]) each.remove()")
    assert _blue(pixels) > 1e-4 + 3 * _blue(_pixels(browser))
    assert not [url for url in browser.asked if not url.startswith(("data:", "file:"))]
    assert browser.complaints == []


def test_the_page_forbids_pictures_from_elsewhere(
    page: Path, tmp_path: Path, browser: Browser
) -> None:
    asking = tmp_path / "asking.html"
    image = '<img src="http://127.0.0.1:9/x.png" alt="">'
    asking.write_text(page.read_text(encoding="utf-8").replace("</body>", image), encoding="utf-8")
    browser.go(asking.as_uri())
    (complaint,) = browser.complaints
    assert "Content Security Policy" in complaint


def test_the_page_does_not_go_out_without_what_leaks() -> None:
    words, embeddings = leaks((ROOT / "docs" / "privacy.md").read_text(encoding="utf-8"))
    assert "<table>" in words
    assert "<table>" in embeddings
    assert "](" not in words
    with pytest.raises(ValueError, match="What leaks"):
        leaks("# What is protected\n\nEverything.\n")


def test_pictures_show_the_figures(result: dict[str, Any], page: Path) -> None:
    cost = {(row["mechanism"], row["level"]): row for row in result["utility"]}
    ours = cost["pct2t.v2", "balanced"]["cosine"]
    alt = next(image["alt"] for image in _Page(page).all("img"))
    assert f"PCT2T balanced: {_recovered(result)}, {ours:.2f}".replace("0.", ".") in str(alt)
    for picture in page.parent.glob("*.png"):
        pixels = matplotlib.image.imread(picture)
        assert min(pixels.shape[:2]) > 100
        assert np.ptp(pixels[..., :3]) > 0.5
