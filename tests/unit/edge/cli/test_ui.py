"""`sotto ui`: a link to the running agent's page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sottovoce.core.text.tagger import Tagger
from tests.support.agent import running
from tests.support.openai_endpoint import Door

from .conftest import Device


def test_it_gives_a_link_that_is_answered(
    new_device: Callable[..., Device], small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    device = new_device(small_bundle_folder)
    with running(device.config, lexicon_tagger):
        (told,) = device.json("ui")
        parts = urlsplit(told["url"])
        page = Door(parts.netloc, "").ask("/", Authorization="")
        assert b"<title>Sottovoce on this device</title>" in page.body
        assert device.sotto("ui", "--no-open").stdout.startswith("http://127.0.0.1:")


def test_a_browser_is_opened_where_there_is_a_desktop(
    new_device: Callable[..., Device],
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    device = new_device(small_bundle_folder)
    device.environment |= {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with running(device.config, lexicon_tagger):
        device.sotto("ui")
        assert opened == []
        shown = device.sotto("ui", "--open").stdout
    assert opened == [shown.strip()]


def test_without_an_agent_it_says_how_to_start_one(device: Device) -> None:
    assert "sotto serve" in device.sotto("ui", code=3).stderr
