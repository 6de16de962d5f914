"""Type the commands of the documents, page by page, and compare the output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.e2e.conftest import Light
from tests.support import documented
from tests.support.documented import PAGES, Part, Typed
from tests.support.judged import Wrong, judge
from tests.support.not_typed import BEFORE, FIRST, later, looks, reason
from tests.support.reader import Outcome, Reader, furnish
from tests.support.upstream_server import openai_server

AGAIN = "sotto serve"
"""Typed as often as it is shown: what was set before holds from then on."""


class Walk:
    """What became of each page, once it was read."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.wrong: dict[str, list[Outcome]] = {}
        self.typed: set[tuple[Part, ...]] = set()

    def read(self, page: str) -> list[Outcome]:
        """What did not end well on a page; those that go before it are read first."""
        for each in (*FIRST, page):
            if each not in self.wrong:
                self.wrong[each] = self._read(each)
        return self.wrong[page]

    def _read(self, page: str) -> list[Outcome]:
        lines = to_type(page)
        before = [Typed(page, line, block=True) for line in BEFORE.get(page, ()) if lines]
        exported = dict(self.reader.exported)
        wrong = []
        for typed in [*before, *lines]:
            if not typed.block and page not in FIRST:  # its own exports are for its blocks
                self.reader.exported = exported
            if typed.parts not in self.typed or str(typed.parts[0]).startswith(AGAIN):
                self.typed.add(typed.parts)
                outcome = self.reader.type(typed)
                wrong += [outcome] if outcome.code else []
        if page not in FIRST:
            self.reader.exported = exported
        return wrong


def to_type(page: str) -> list[Typed]:
    """A page's blocks, and then what its text names that only looks."""
    lines = [t for t in documented.read(page)[0] if reason(t) is None]
    shown = sorted((t for t in lines if t.block), key=later)
    return shown + [t for t in lines if not t.block and looks(t) and complete(t)]


def complete(typed: Typed) -> bool:
    """Whether a line that is but named could be typed so."""
    try:
        judge(replace(typed, block=True))
    except Wrong:
        return False
    return True


@pytest.fixture(scope="module")
def walk(light: Light, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("reader")
    furnish(folder, light.bundle)
    with openai_server() as upstream:
        reader = Reader(folder, light.backbone, f"127.0.0.1:{upstream.server_port}")
        yield Walk(reader)
        reader.leave()


@pytest.mark.parametrize("page", [page for page in PAGES if to_type(page)])
def test_what_a_page_shows_can_be_typed(walk: Walk, page: str) -> None:
    assert "\n".join(map(str, walk.read(page))) == ""


def test_most_of_what_can_be_typed_here_is() -> None:
    assert len({typed.line for page in PAGES for typed in to_type(page)}) > 50
