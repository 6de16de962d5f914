"""The provider's page in a real browser: refresh, keyboard, small screens, and text as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from bench.live.testbed import free_address
from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.page import changes, endpoints
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from tests.support.browser import HINT, Browser, browser_program, check_picture, opened_browser
from tests.support.jobs import claim, create, opened, queued
from tests.support.provider_page import served
from tests.support.stores import FileStore

MARKUP = "<img src=x onerror=\"document.title='broken'\">"
LONG = "a" * 64
PROGRESS = Progress(1, 4, 3, 9, 0.48, 0.22, 0.86, 61.0, 84.0)
TABS = ("overview", "jobs", "tenants", "acts")


@dataclass(frozen=True)
class Shown:
    """The page, its address, and the cloud it is of."""

    browser: Browser
    address: str
    jobs: Jobs

    def choose(self, name: str, ready: str) -> str:
        """Goes to a tab; gives its text once something is there."""
        self.browser.run(f"document.getElementById('tab-{name}').click()")
        self.browser.until(ready)
        text = self.browser.run(f"document.getElementById('{name}').innerText")
        assert isinstance(text, str)
        return text


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A page that was entered, of a cloud where what may be named badly is."""
    if browser_program() is None:
        pytest.skip(HINT)
    folder = tmp_path_factory.mktemp("page")
    with opened(folder, FileStore()) as jobs:
        queued(jobs, "1"), queued(jobs, "2", "other")
        _, lease = claim(jobs, MARKUP)
        Queue(jobs.database).report(lease, PROGRESS)
        audit_log.note(jobs.database, "job cancelled", "acme", MARKUP)
        with jobs.database.write() as transaction:
            transaction.change("UPDATE jobs SET message = :markup", markup=MARKUP)
            transaction.change("UPDATE jobs SET adapter = :name WHERE tenant = 'acme'", name=LONG)
        with served(endpoints(jobs.database, (), (), None), changes(jobs.database)) as server:
            link = server.link()
            with opened_browser(folder) as browser:
                browser.window(900, 900)
                browser.go(link)
                browser.until("document.body.dataset.ready")
                yield Shown(browser, urlsplit(link).netloc, jobs)


def test_jobs_and_trainers_are_seen_at_a_glance(shown: Shown) -> None:
    text = shown.choose("overview", "document.querySelector('#running td')")
    assert "1 queued, 1 running" in text
    assert MARKUP[:8] in text, "a random name is cut"
    assert "3/9" in text
    assert "sotto-cloud ui --health" in text


@pytest.mark.parametrize(
    ("name", "ready"),
    [
        ("jobs", "document.querySelector('#joblist td')"),
        ("acts", "document.querySelector('#actlist td')"),
    ],
)
def test_names_and_messages_stay_text(shown: Shown, name: str, ready: str) -> None:
    assert MARKUP in shown.choose(name, ready)
    assert shown.browser.run("document.images.length") == 0
    assert shown.browser.run("document.title") == "Sottovoce at the provider's"


def test_it_is_shown_anew_by_itself_and_in_place(shown: Shown) -> None:
    browser = shown.browser
    shown.choose("jobs", "document.querySelector('#joblist td')")
    browser.run("document.querySelector('#joblist table').kept = true")
    browser.run("getSelection().selectAllChildren(document.querySelector('#joblist td'))")
    before = browser.run("String(getSelection())")
    queued_one = shown.jobs.page("other")[0][0]
    shown.jobs.cancel(queued_one.id)
    browser.until("document.getElementById('joblist').innerText.includes('cancelled')")
    assert browser.run("document.querySelector('#joblist table').kept") is True
    assert before
    assert browser.run("String(getSelection())") == before
    create(shown.jobs, "later", "other")  # one more row
    browser.until("document.querySelectorAll('#joblist tbody tr').length === 3")
    assert browser.run("document.querySelector('#joblist table').kept") is True


def test_jobs_are_chosen_by_tenant_and_state(shown: Shown) -> None:
    browser = shown.browser
    shown.choose("jobs", "document.querySelector('#joblist td')")

    def put(field: str, value: str) -> None:
        browser.run(
            f"(each => {{ each.value = '{value}'; each.dispatchEvent(new Event('input')) }})"
            f"(document.getElementById('{field}'))"
        )

    put("jobtenant", "acme")
    browser.until("document.querySelectorAll('#joblist tbody tr').length === 1")
    assert "other" not in browser.run("document.getElementById('joblist').innerText")
    put("jobstate", "failed")
    browser.until("document.getElementById('joblist').innerText.includes('No such jobs')")
    put("jobtenant", ""), put("jobstate", "")
    browser.until("document.querySelectorAll('#joblist tbody tr').length > 1")


def test_a_tenant_opens_to_its_devices_and_keeps_the_focus(shown: Shown) -> None:
    browser = shown.browser
    shown.choose("tenants", "document.querySelector('#tenantlist button')")
    browser.run("document.querySelector('#tenantlist button[value=other]').focus()")
    browser.run("document.activeElement.click()")
    browser.until("document.getElementById('devices').innerText.includes('first')")
    assert "Limits of other" in browser.run("document.getElementById('devices').innerText")
    Tenants(shown.jobs.database).disable("other")
    browser.until("document.getElementById('tenantlist').innerText.includes('disabled')")
    assert browser.run("document.activeElement.value") == "other"
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_the_keyboard_goes_everywhere(shown: Shown) -> None:
    browser = shown.browser
    browser.run("document.getElementById('tab-overview').focus()")
    focused = "document.activeElement.getAttribute('aria-controls')"
    for name in (*TABS[1:], TABS[0]):
        browser.press("ArrowRight")
        assert browser.run(focused) == name
        assert not browser.run(f"document.getElementById('{name}').hidden")
    browser.press("End")
    assert browser.run(focused) == TABS[-1]
    named = (
        "[...document.querySelectorAll('button, select, input')]"
        ".every(each => each.textContent.trim() || each.labels.length)"
    )
    assert browser.run(named)


@pytest.mark.parametrize("dark", [False, True])
def test_a_small_screen_shows_all_of_it(shown: Shown, dark: bool) -> None:
    browser = shown.browser
    browser.window(320, 640, dark=dark)
    try:
        for name in TABS:
            shown.choose(name, f"document.querySelector('#{name} .wide').innerText")
            assert browser.run("document.documentElement.scrollWidth") <= 320
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(23, 24, 27)" if dark else "rgb(253, 252, 249)")
    finally:
        browser.window(900, 900)


@pytest.mark.parametrize("width", [1200, 800, 390])
def test_nothing_is_clipped(shown: Shown, width: int) -> None:
    browser = shown.browser
    browser.window(width, 900)
    try:
        for name in TABS:
            shown.choose(name, f"document.querySelector('#{name} .wide').innerText")
            assert browser.clipped == []
    finally:
        browser.window(900, 900)


def test_a_job_shows_level_accuracy_and_progress(shown: Shown) -> None:
    text = shown.choose("jobs", "document.querySelector('#joblist td')")
    assert "86.0%" in text
    assert "balanced" in text
    assert "61 examples/s, 84 s left" in text


def test_every_limit_of_a_tenant_is_a_number_with_its_unit(shown: Shown) -> None:
    browser = shown.browser
    shown.choose("tenants", "document.querySelector('#tenantlist button')")
    quotas.change(shown.jobs.database, "acme", "examples", 512)
    browser.run("document.querySelector('#tenantlist button[value=acme]').click()")
    browser.until("document.getElementById('devices').innerText.includes('Limits of acme')")
    limits = browser.run("[...document.querySelectorAll('#devices dd')].map(e => e.innerText)")
    assert "512 examples a job, set for this tenant" in limits
    assert f"{ServerLimits().held_bytes:,} bytes, as for all (default)" in limits
    assert len(limits) == len(quotas.CHANGEABLE)


def test_a_reload_stays_in(shown: Shown) -> None:
    browser = shown.browser
    address = browser.run("location.href")
    assert urlsplit(address)._replace(netloc="").geturl() == "http:///"
    browser.send("Page.reload")
    browser.until("document.body?.dataset.ready && performance.navigation.type === 1")
    assert not browser.run("document.cookie")


def press_twice(browser: Browser, button: str) -> None:
    """The first press only asks."""
    browser.until(f"document.querySelector('{button}')")
    for asked in ("!", ""):
        browser.until(f"{asked}document.querySelector('{button}').textContent.includes('Really')")
        browser.run(f"document.querySelector('{button}').click()")


def test_a_job_is_cancelled_by_a_second_press_and_noted(shown: Shown) -> None:
    browser, jobs = shown.browser, shown.jobs
    job = create(jobs, "to be cancelled", "other")
    shown.choose("jobs", f"document.querySelector('#joblist button[value=\"job {job.id}\"]')")
    button = f'#joblist button[value="job {job.id}"]'
    browser.run(f"document.querySelector('{button}').click()")
    browser.until(f"document.querySelector('{button}').textContent.includes('Really')")
    assert jobs.get(job.id).state == State.UPLOADING
    shown.choose("overview", "document.querySelector('#running td')")  # takes the question back
    shown.choose("jobs", f"document.querySelector('{button}')")
    press_twice(browser, button)
    browser.until("document.getElementById('said').textContent.includes('cancelled')")
    assert browser.run("document.activeElement.id") == "said"
    assert not browser.run(f"!!document.querySelector('{button}')")
    assert jobs.get(job.id).state == State.CANCELLED
    assert audit_log.recorded(jobs.database, most=1)[0].detail == job.id


def test_a_token_is_made_shown_once_and_revoked(shown: Shown) -> None:
    browser, credentials = shown.browser, Credentials(shown.jobs.database)
    shown.choose("tenants", "document.querySelector('#tenantlist button')")
    browser.run("document.querySelector('#tenantlist button[value=acme]').click()")
    browser.until("!document.getElementById('change').hidden")
    browser.run(
        "(form => { form.elements.namedItem('name').value = 'porch';"
        " form.elements.namedItem('scope').value = 'predict';"
        " form.elements.namedItem('days').value = '7'; form.requestSubmit(); })"
        "(document.getElementById('tokenform'))"
    )
    browser.until("!document.getElementById('made').hidden")
    token = browser.run("document.querySelector('#made code').textContent")
    made = credentials.newest("acme", 1)[0][0]
    assert (made.name, made.scope) == ("porch", Scope.PREDICT)
    assert made.ends is not None
    metadata = [("sottovoce-tenant", "acme"), ("authorization", f"Bearer {token}")]
    assert Tenants(shown.jobs.database).authenticate(metadata) == "acme"
    browser.run("document.getElementById('hide').click()")
    assert token not in browser.run("document.documentElement.outerHTML")
    press_twice(browser, f'#devices button[value="token {made.number}"]')
    browser.until("document.getElementById('said').textContent.includes('revoked')")
    assert credentials.newest("acme", 1)[0][0].revoked


def test_a_limit_is_set_and_a_wrong_one_stays_told(shown: Shown) -> None:
    browser = shown.browser
    shown.choose("tenants", "document.querySelector('#tenantlist button')")
    browser.run("document.querySelector('#tenantlist button[value=acme]').click()")
    browser.until("document.querySelector('#limitform option')")

    def put(value: str) -> None:
        browser.run(
            "(form => { form.elements.namedItem('limit').value = 'past_jobs';"
            f" form.elements.namedItem('value').value = '{value}'; form.requestSubmit(); }})"
            "(document.getElementById('limitform'))"
        )

    put("7")
    browser.until("document.getElementById('devices').innerText.includes('7 jobs, set for this')")
    put("many")
    browser.until("document.getElementById('said').className === 'problem'")
    assert "whole number" in browser.run("document.getElementById('said').textContent")
    assert quotas.own(shown.jobs.database, "acme")["past_jobs"] == 7


def test_no_cell_is_empty(shown: Shown) -> None:
    browser = shown.browser
    empty = "[...document.querySelectorAll('td')].filter(each => !each.textContent.trim()).length"
    for name in TABS:
        shown.choose(name, f"document.querySelector('#{name} .wide').innerText")
        assert browser.run(empty) == 0, name


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 800, 1200])
def test_a_picture_of_each_view_is_legible(shown: Shown, width: int, dark: bool) -> None:
    browser = shown.browser
    browser.window(width, 900, dark=dark)
    try:
        for name in TABS:
            shown.choose(name, f"document.querySelector('#{name} .wide').innerText")
            check_picture(browser, width, 900, dark=dark)
    finally:
        browser.window(900, 900)


def test_it_changes_what_was_asked_and_asks_nobody_else(shown: Shown) -> None:
    browser = shown.browser
    sent = [
        (each["params"]["request"]["method"], each["params"]["request"]["url"])
        for each in browser.events
        if each.get("method") == "Network.requestWillBeSent"
    ]
    assert {urlsplit(url).hostname for _, url in sent} <= {"127.0.0.1", None}
    changed = {urlsplit(url).path for method, url in sent if method != "GET"}
    asked_for = {f"/api/{each}" for each in ("jobs/cancel", "limits/set", "tokens/new")}
    assert changed == {"/api/session", "/api/tokens/revoke", *asked_for}
    refused = [each for each in browser.complaints if "/api/limits/set" in each]
    assert browser.complaints == refused  # Chromium logs a response of 400
    with pytest.raises(AssertionError, match="TrustedHTML"):  # the policy holds
        browser.run("document.body.innerHTML = '<b>x</b>'")


def test_a_process_that_does_not_answer_is_coloured(shown: Shown) -> None:
    """After the others: it leaves their page."""
    browser, nobody = shown.browser, free_address()
    with served(endpoints(shown.jobs.database, [nobody], [nobody], None)) as server:
        browser.go(server.link())
        browser.until("document.body.dataset.ready && document.querySelector('#health td')")
        for table in ("health", "metrics"):
            assert nobody in browser.run(f"document.getElementById('{table}').innerText")
            problem = browser.run(f"document.querySelector('#{table} .problem').innerText")
            assert "no answer" in problem


def test_a_page_whose_program_ended_says_so(shown: Shown) -> None:
    """The last test, because the page's program ends."""
    browser = shown.browser
    with served(endpoints(shown.jobs.database, (), (), None)) as server:
        browser.go(server.link())
        browser.until("document.body.dataset.ready")
    browser.until("!document.getElementById('problem').hidden")
    assert "`sotto-cloud ui`" in browser.run("document.getElementById('problem').innerText")
