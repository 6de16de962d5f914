"""The page makes the commands' changes behind its gate, and logs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.page import DAYS, LARGEST_BODY, changes, endpoints
from sottovoce.cloud.store import audit_log, check_objects
from sottovoce.cloud.store.audit_log import recorded
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.cloud.tenants import quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from tests.support.jobs import claim, opened, queued
from tests.support.openai_endpoint import Door, entered
from tests.support.provider_page import page_of, served
from tests.support.stores import FileStore

TOKEN = {"tenant": "acme", "name": "hall", "scope": "predict", "days": "7"}
CHANGES: dict[str, dict[str, str]] = {
    "/api/jobs/cancel": {"id": "a" * 24},
    "/api/limits/set": {"tenant": "acme", "limit": "examples", "value": "5"},
    "/api/tokens/new": TOKEN,
    "/api/tokens/revoke": {"tenant": "acme", "number": "1"},
}


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with opened(tmp_path, FileStore()) as jobs:
        yield jobs


@pytest.fixture
def page(jobs: Jobs) -> Iterator[Door]:
    with page_of(jobs.database) as door:
        yield door


def last(jobs: Jobs) -> tuple[str, str, str, str]:
    """Return the last entry of the log: actor, act, tenant, detail."""
    act = recorded(jobs.database, most=1)[0]
    return act.who, act.what, act.tenant, act.detail


def test_a_waiting_and_a_running_job_are_cancelled(page: Door, jobs: Jobs) -> None:
    queued(jobs, "1")
    running, _ = claim(jobs)
    waiting = queued(jobs, "2", "other")
    assert page.ask("/api/jobs/cancel", {"id": waiting.id}).json["state"] == "cancelled"
    assert last(jobs) == (audit_log.operator(), "job cancelled", "other", waiting.id)
    assert page.ask("/api/jobs/cancel", {"id": running.id}).status == 200
    assert jobs.get(running.id).cancel_requested
    assert page.ask("/api/jobs/cancel", {"id": "a" * 24}).status == 404


def test_no_job_is_cancelled_with_the_objects_of_another_cloud(tmp_path: Path) -> None:
    with opened(tmp_path / "one", FileStore()) as jobs:
        check_objects(jobs.database)
        job = queued(jobs)
    with opened(tmp_path / "two", FileStore()) as other:
        check_objects(other.database)
    elsewhere = FileObjects(tmp_path / "two" / "objects")
    database = FileStore().open(tmp_path / "one", None, elsewhere)
    try:
        with page_of(database) as page:
            assert page.ask("/api/jobs").status == 200
            answer = page.ask("/api/jobs/cancel", {"id": job.id})
            assert (answer.status, "--objects" in answer.error["message"]) == (500, True)
        assert Jobs(database).get(job.id).state == State.QUEUED
    finally:
        database.close()


def test_a_limit_is_set_and_taken_back(page: Door, jobs: Jobs) -> None:
    asked = {"tenant": "acme", "limit": "unfinished_jobs", "value": "7"}
    told = page.ask("/api/limits/set", asked).json["limits"]["unfinished_jobs"]
    assert told == {"value": 7, "origin": "tenant", "unit": "jobs"}
    assert last(jobs)[1:] == ("limit changed", "acme", "unfinished_jobs=7")
    assert page.ask("/api/limits/set", asked | {"value": ""}).status == 200
    assert quotas.own(jobs.database, "acme") == {}


def test_a_token_is_made_told_once_and_revoked(page: Door, jobs: Jobs) -> None:
    credentials = Credentials(jobs.database)
    token = page.ask("/api/tokens/new", TOKEN).json["token"]
    made = credentials.newest("acme", 1)[0][0]
    assert (made.name, made.scope) == ("hall", Scope.PREDICT)
    assert made.ends is not None
    assert round(made.ends - made.created) == 7 * 86400
    who, what, tenant, detail = last(jobs)
    assert (who, what, tenant) == (audit_log.operator(), "token made", "acme")
    for told in (detail, *(page.ask(f"/api/{each}").body.decode() for each in ("acts", "jobs"))):
        assert token not in told
    answer = page.ask("/api/tokens/revoke", {"tenant": "acme", "number": str(made.number)})
    assert answer.json == {"revoked": 1}
    assert last(jobs)[1:] == ("token revoked", "acme", str(made.number))
    assert credentials.newest("acme", 1)[0][0].revoked


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/api/tokens/revoke", {"tenant": "acme"}),  # would be all of them
        ("/api/tokens/revoke", {"tenant": "acme", "number": ""}),
        ("/api/tokens/revoke", {"tenant": "acme", "number": "first"}),
        ("/api/tokens/revoke", {"tenant": "acme", "number": "9" * 30}),
        ("/api/tokens/new", TOKEN | {"scope": "none"}),
        ("/api/tokens/new", TOKEN | {"days": "8"}),
        ("/api/tokens/new", TOKEN | {"name": ""}),
        ("/api/tokens/new", TOKEN | {"name": "first"}),  # which is taken
        ("/api/tokens/new", TOKEN | {"tenant": "nobody"}),
        ("/api/limits/set", {"tenant": "acme", "limit": "none", "value": "1"}),
        ("/api/limits/set", {"tenant": "acme", "limit": "examples", "value": "0"}),
        ("/api/limits/set", {"tenant": "acme", "limit": "examples", "value": "-1"}),
        ("/api/limits/set", {"tenant": "acme", "limit": "examples", "value": "9" * 19}),
        ("/api/jobs/cancel", {"id": ""}),
        ("/api/jobs/cancel", {"id": "x", "more": "y"}),
        ("/api/jobs/cancel", ["x"]),
        ("/api/jobs/cancel", {"id": 7}),
        ("/api/jobs/cancel", {"id": "\ud800"}),
        ("/api/jobs/cancel", b"{"),
        ("/api/jobs/cancel", b"[" * LARGEST_BODY),
        ("/api/jobs/cancel", b""),
    ],
)
def test_what_is_wrong_changes_nothing(page: Door, jobs: Jobs, path: str, fields: Any) -> None:
    before = recorded(jobs.database, most=100)
    answer = page.ask(path, fields)
    assert answer.status in (400, 404, 409)
    assert "(" in answer.error["message"], "it says what to do"
    assert recorded(jobs.database, most=100) == before


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),  # another port of this machine
        ({"Host": "evil.example"}, 403),
    ],
)
def test_nobody_else_changes_anything(
    page: Door, jobs: Jobs, path: str, headers: dict[str, str], status: int
) -> None:
    before = recorded(jobs.database, most=100)
    assert page.ask(path, CHANGES[path], **headers).status == status
    assert recorded(jobs.database, most=100) == before


@pytest.mark.parametrize("path", CHANGES)
def test_another_page_is_not_let_ask_whether_it_may(page: Door, path: str) -> None:
    """A browser asks first, as the session is in a header. Forms and images cannot send one."""
    asks = {"Access_Control_Request_Method": "POST", "Authorization": ""}
    answer = page.ask(path, method="OPTIONS", Origin="https://evil.example", **asks)
    assert answer.status == 403
    assert not [each for each in answer.headers if each.startswith("access-control")]
    query = "&".join(f"{name}={value}" for name, value in CHANGES[path].items())
    assert page.ask(f"{path}?{query}").status == 405


def test_a_body_is_bounded(page: Door) -> None:
    assert page.ask("/api/jobs/cancel", {"id": "x" * LARGEST_BODY}).status == 413


def test_every_change_is_tried_here(jobs: Jobs) -> None:
    assert set(changes(jobs.database)) == set(CHANGES)


def test_a_page_without_changes_reads_no_body(jobs: Jobs) -> None:
    with served(endpoints(jobs.database, (), (), None)) as server:
        door = entered(server.link())
        assert door.ask("/api/jobs/cancel", {"id": "x"}).status in (404, 413)


def test_the_page_offers_the_known_scopes_and_lifetimes() -> None:
    script = resources.files("sottovoce.cloud.page").joinpath("static", "page.js").read_text()

    def keys(name: str) -> set[str]:
        found = re.search(rf"const {name} = \{{(.*?)\}};", script)
        assert found is not None
        return set(re.findall(r'(?:^|, )\s*"?(\w*)"?: "', found[1]))

    assert keys("SCOPES") == {str(each) for each in Scope}
    assert keys("DAYS") == set(DAYS)
