"""The device's page in a real browser: text as text, keyboard, small screens, no other host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import connect
from sottovoce.edge.state.corrections import Corrections
from sottovoce.edge.state.ledger import Purpose
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_owner_pb2
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, opened, running
from tests.support.browser import HINT, Browser, browser_program, check_picture, opened_browser

MARKUP = "<img src=x onerror=\"document.title='broken'\">"
READY = {
    "try": "true",
    "ledger": "document.querySelector('#purposes td')",
    "levels": "document.querySelector('#leveltable td')",
    "adapters": "document.querySelector('#adaptertable td')",
    "left": "document.querySelector('#leftlist .text')",
    "doctor": "document.querySelector('#findings h3')",
}
"""What each tab shows once its answer is there."""
TABS = tuple(READY)
_LINES = "[...document.querySelectorAll('#tried ol li')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def shown(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Browser, str]]:
    """A page that was entered, of a device on which everything is named as badly as can be."""
    if browser_program() is None:
        pytest.skip(HINT)
    folder = tmp_path_factory.mktemp("page")
    config = configured(folder, bundle=small_bundle_folder, SOTTO_UI_RECORD="true")
    with opened(config, lexicon_tagger) as device:
        device.ledger.charge_once(b"one", 12.5, Purpose("predict", MARKUP))
        record = agent.Customization(
            id="1",
            adapter=MARKUP,
            message=MARKUP,
            examples=20,
            state=agent.CUSTOMIZATION_STATE_FAILED,
        )
        with device.store.transaction() as transaction:
            device.outbox.insert(transaction, record, "r", training.CreateJobRequest(), {})
        Corrections(device.store).keep(MARKUP, [(f"{n}", "wet") for n in range(37)], 37)
    with (
        running(config, lexicon_tagger) as address,
        connect(address) as device,
        opened_browser(folder) as browser,
    ):
        device.agent.Privatize(agent.PrivatizeRequest(text=f"{MARKUP} Anna sees the pond"))
        browser.window(900, 900)
        link = device.owner.OpenPage(edge_owner_pb2.OpenPageRequest()).url
        browser.go(link)
        browser.until("document.body.dataset.ready")
        yield browser, urlsplit(link).netloc


def choose(browser: Browser, name: str, ready: str) -> str:
    """Goes to a tab; gives its text once something is there."""
    browser.run(f"document.getElementById('tab-{name}').click()")
    browser.until(ready)
    text = browser.run(f"document.getElementById('{name}').innerText")
    assert isinstance(text, str)
    return text


def test_a_text_is_shown_before_and_after(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    text = f"{MARKUP} Zelphira was in the garden by the pond, AX-68042-7713"
    browser.run(f"document.getElementById('text').value = {text!r}")
    browser.run("document.getElementById('level').value = 'balanced'")
    browser.run("document.getElementById('policy').value = 'content'")
    browser.run("document.getElementById('form').requestSubmit()")
    browser.until("document.querySelectorAll('#tried ol li').length === 5")
    drawn = browser.run(_LINES)
    assert all("<" in each for each in drawn)
    assert not [each for each in drawn if "Zelphira" in each or "68042" in each]
    assert browser.run("document.querySelectorAll('#tried mark.draw').length") >= 5
    assert "of 100 words with noise" in browser.run("document.getElementById('tried').innerText")


def _tries(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('tab-try').click()")
    browser.run(f"document.getElementById('text').value = {text!r}")
    browser.run("document.getElementById('level').value = 'balanced'")
    browser.run("document.getElementById('policy').value = 'names'")
    browser.run("document.getElementById('tried').replaceChildren()")
    browser.run("document.getElementById('form').requestSubmit()")
    browser.until("document.querySelectorAll('#tried ol li').length === 5")


def _button(label: str) -> str:
    return f"document.querySelector('button[aria-label=\"{label}\"]')"


def test_one_click_hides_a_word_and_one_takes_that_back(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    _tries(browser, "Anna was in the clinic")
    assert "Anna (name)" in browser.run("document.getElementById('tried').innerText")
    browser.run(f"{_button('Always hide: clinic')}.click()")
    browser.until("document.getElementById('said').textContent.includes('clinic')")
    assert browser.run("document.activeElement.id") == "said"  # a screen reader goes on there
    assert "clinic (listed)" in browser.run("document.getElementById('tried').innerText")
    drawn = browser.run(_LINES)
    assert not [each for each in drawn if "clinic" in each]
    assert "clinic" in browser.run("document.getElementById('words').innerText")
    browser.run(f"{_button('Remove: clinic')}.click()")
    browser.until("document.getElementById('said').textContent.includes('neither')")
    assert "clinic" not in browser.run("document.getElementById('words').innerText")


def test_a_phrase_is_typed_and_hidden_by_keyboard(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    browser.run("document.getElementById('tab-try').click()")
    browser.run("document.getElementById('word').value = 'by the pond'")
    browser.run("document.getElementById('word').focus()")
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, **enter)
    browser.until("document.getElementById('words').innerText.includes('by the pond')")
    _tries(browser, "Anna was by the pond")
    assert browser.run("document.querySelectorAll('#tried ol li mark').length") == 20
    browser.run(f"{_button('Remove: by the pond')}.click()")
    browser.until("!document.getElementById('words').innerText.includes('by the pond')")


@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_shows_the_whole_preview(shown: tuple[Browser, str], width: int) -> None:
    browser, _ = shown
    browser.window(width, 640)
    try:
        _tries(browser, f"Anna was in the garden by the pond, {'x' * 60}")
        browser.run("document.querySelectorAll('#tried details').forEach(each => each.open = true)")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.clipped == []
    finally:
        browser.window(900, 900)


@pytest.mark.parametrize("name", ["ledger", "adapters", "left"])
def test_names_and_texts_stay_text(shown: tuple[Browser, str], name: str) -> None:
    browser, _ = shown
    text = choose(browser, name, READY[name])
    if name == "left":
        assert "to an app of this device" in text
        assert "Anna" not in text
    else:
        assert MARKUP in text
    if name == "adapters":
        assert browser.run("document.querySelector('#adaptertable td.number').innerText") == "37"
    assert browser.run("document.images.length") == 0
    assert browser.run("document.title") == "Sottovoce on this device"


def test_levels_and_doctor_are_told(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    levels = choose(browser, "levels", READY["levels"])
    assert "balanced (default)" in levels
    assert "OK randomness" in choose(browser, "doctor", READY["doctor"])


def test_the_keyboard_goes_everywhere(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    browser.run("document.getElementById('tab-try').focus()")
    focused = "document.activeElement.getAttribute('aria-controls')"
    for name in (*TABS[1:], TABS[0]):
        browser.press("ArrowRight")
        assert browser.run(focused) == name
        assert not browser.run(f"document.getElementById('{name}').hidden")
    browser.press("End")
    assert browser.run(focused) == TABS[-1]
    browser.press("Home")
    assert browser.run(focused) == TABS[0]
    named = (
        "[...document.querySelectorAll('button, input, select, textarea')]"
        ".every(each => each.textContent.trim() || each.labels.length)"
    )
    assert browser.run(named)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 800, 1200])
def test_a_picture_of_each_view_is_legible(
    shown: tuple[Browser, str], width: int, dark: bool
) -> None:
    browser, _ = shown
    browser.window(width, 900, dark=dark)
    try:
        for name in TABS:
            choose(browser, name, READY[name])
            check_picture(browser, width, 900, dark=dark)
            empty = "[...document.querySelectorAll('td')].filter(each => !each.textContent.trim())"
            assert browser.run(f"{empty}.length") == 0
    finally:
        browser.window(900, 900)


@pytest.mark.parametrize("dark", [False, True])
def test_a_small_screen_shows_all_of_it(shown: tuple[Browser, str], dark: bool) -> None:
    browser, _ = shown
    browser.window(320, 640, dark=dark)
    try:
        for name in TABS:
            browser.run(f"document.getElementById('tab-{name}').click()")
            assert browser.run("document.documentElement.scrollWidth") <= 320
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(23, 24, 27)" if dark else "rgb(253, 252, 249)")
    finally:
        browser.window(900, 900)


def test_the_ledger_has_a_unit(shown: tuple[Browser, str]) -> None:
    browser, _ = shown
    text = choose(browser, "ledger", READY["ledger"])
    assert "eta on 2 texts" in text
    assert browser.run("document.querySelector('#days th.number').innerText") == "eta spent"


def test_the_link_is_gone_from_the_address_and_a_reload_stays_in(
    shown: tuple[Browser, str],
) -> None:
    browser, address = shown
    assert browser.run("location.href") == f"http://{address}/"
    browser.send("Page.reload")
    browser.until("document.body?.dataset.ready && performance.navigation.type === 1")
    assert not browser.run("document.cookie")


def test_nobody_else_is_asked_and_nothing_is_complained_of(shown: tuple[Browser, str]) -> None:
    browser, address = shown
    assert not [url for url in browser.asked if not url.startswith((f"http://{address}/", "data:"))]
    assert browser.complaints == []
    with pytest.raises(AssertionError, match="TrustedHTML"):  # the policy holds
        browser.run("document.body.innerHTML = '<b>x</b>'")


def test_another_page_of_the_same_browser_gets_nothing(
    shown: tuple[Browser, str], tmp_path: Path
) -> None:
    browser, address = shown
    before = browser.run("sessionStorage.getItem('session')")
    other = tmp_path / "other.html"
    other.write_text(
        f"""<script>
        fetch("http://{address}/api/overview", {{headers: {{Authorization: "Bearer {before}"}}}})
          .then(() => document.title = "read", () => document.title = "refused")
        </script><iframe src="http://{address}/"></iframe>"""
    )
    browser.go(other.as_uri())
    browser.until("document.title")
    assert browser.run("document.title") == "refused"
    assert browser.run("sessionStorage.getItem('session')") is None
