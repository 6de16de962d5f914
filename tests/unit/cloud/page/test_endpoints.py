"""The page reads the commands' figures, bounded, and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from bench.live.testbed import free_address
from sottovoce.cloud import views
from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.page import A_PAGE, MOST_TOKENS
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from tests.support.jobs import claim, create, fill, opened, queued
from tests.support.openai_endpoint import Door
from tests.support.provider_page import page_of
from tests.support.stores import FileStore

CANARY = "what-anna-wrote"
PATHS = (
    *("/api/overview", "/api/processes", "/api/jobs", "/api/tenants", "/api/tenant?tenant=acme"),
    "/api/acts",
)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """One in training, one that waits, one in upload."""
    with opened(tmp_path, FileStore()) as jobs:
        queued(jobs, "1"), queued(jobs, "2", "other"), create(jobs, "3")
        _, lease = claim(jobs, "trainer-of-the-test")
        progress = Progress(epoch=1, epochs=2, step=3, steps=9, examples_per_second=2.04)
        Queue(jobs.database).report(lease, progress)
        yield jobs


@pytest.fixture
def page(jobs: Jobs) -> Iterator[Door]:
    with page_of(jobs.database) as door:
        yield door


def test_the_overview_is_what_status_tells(page: Door) -> None:
    told = page.ask("/api/overview").json
    assert {name: count for name, count in told["jobs"].items() if count} == {
        "uploading": 1,
        "queued": 1,
        "running": 1,
    }
    (running,) = told["running"]
    assert (running["trainer"], running["step"]) == ("trainer-of-the-test", 3)
    assert told["version"]


def test_jobs_are_told_as_by_the_command_and_chosen(page: Door, jobs: Jobs) -> None:
    told = page.ask("/api/jobs").json
    assert [each["state"] for each in told["jobs"]] == ["uploading", "queued", "running"]
    assert told["next"] == ""
    running = told["jobs"][2]
    assert running.pop("progress") == "epoch 1/2, loss 0.00, 2 examples/s, 0 s left"
    assert running.pop("accuracy") == ""  # not measured yet
    assert running.pop("age_seconds") >= 0
    assert running == views.job(jobs.get(running["id"]))
    for asked, tenants in (
        ("tenant=other", ["other"]),
        ("state=queued", ["other"]),
        ("tenant=acme&state=running", ["acme"]),
        ("tenant=other&state=running", []),
        ("tenant=nobody", []),
    ):
        found = page.ask(f"/api/jobs?{asked}").json["jobs"]
        assert [each["tenant"] for each in found] == tenants


def test_many_jobs_come_by_pages(page: Door, jobs: Jobs) -> None:
    roomy = Jobs(jobs.database, ServerLimits(unfinished_jobs=1_000))
    made = [create(roomy, f"more {i}").id for i in range(A_PAGE)]
    first = page.ask("/api/jobs").json
    assert [each["id"] for each in first["jobs"]] == made[::-1]
    second = page.ask(f"/api/jobs?page={first['next']}").json
    assert len(second["jobs"]) == 3
    assert second["next"] == ""
    uploading = page.ask("/api/jobs?state=uploading").json
    assert len(page.ask(f"/api/jobs?state=uploading&page={uploading['next']}").json["jobs"]) == 1


def test_tenants_are_told_by_name_and_by_pages(page: Door, jobs: Jobs) -> None:
    tenants = Tenants(jobs.database)
    tenants.disable("other")
    Credentials(jobs.database).new("acme", "hall", seconds=3600)
    Credentials(jobs.database).new("acme", "shed", seconds=60)
    acme, other = page.ask("/api/tenants").json["tenants"]
    assert (acme["name"], acme["tokens"], acme["jobs"], acme["state"]) == ("acme", 3, 2, "enabled")
    assert (other["state"], other["next_end"]) == ("disabled", "")
    ends = {
        each["name"]: each["ends"] for each in page.ask("/api/tenant?tenant=acme").json["tokens"]
    }
    assert acme["next_end"] == ends["shed"]
    for i in range(A_PAGE):
        tenants.enroll(f"x_{i:02}")
    first = page.ask("/api/tenants").json
    assert [each["name"] for each in first["tenants"]][:3] == ["acme", "other", "x_00"]
    assert len(first["tenants"]) == A_PAGE
    second = page.ask(f"/api/tenants?page={first['next']}").json
    assert [each["name"] for each in second["tenants"]] == [f"x_{i}" for i in (48, 49)]
    assert second["next"] == ""
    assert len(page.ask("/api/tenants?begins=x_4").json["tenants"]) == 10
    for none in ("x%", "_", "x_4'"):  # which mean themselves alone
        assert page.ask(f"/api/tenants?begins={quote(none)}").json["tenants"] == []


def test_one_tenants_devices_and_limits_are_told(
    page: Door, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = Credentials(jobs.database)
    token = credentials.new("acme", "hall", scope=Scope.PREDICT)
    credentials.revoke("acme", "first")
    quotas.change(jobs.database, "acme", "unfinished_jobs", 7)
    answer = page.ask("/api/tenant?tenant=acme")
    assert token not in answer.body.decode()
    shown = [(e["name"], e["scope"], e["state"], e["ends"]) for e in answer.json["tokens"]]
    assert shown == [("hall", "predict", "valid", ""), ("first", "all", "revoked", "")]
    limits = answer.json["limits"]
    assert limits["unfinished_jobs"] == {"value": 7, "origin": "tenant", "unit": "jobs"}
    assert set(limits) == set(quotas.CHANGEABLE)
    assert {each["origin"] for each in limits.values()} == {"tenant", "default"}
    assert answer.json["more"] == 0
    for i in range(MOST_TOKENS):
        credentials.new("acme", f"d{i}")
    with jobs.database.read() as transaction:
        kind, read = type(transaction), []
    real = kind.rows

    def rows(self: object, statement: str, **values: object) -> object:
        read.append(len(found := real(self, statement, **values)))
        return found

    monkeypatch.setattr(kind, "rows", rows)
    many = page.ask("/api/tenant?tenant=acme").json
    assert max(read) == MOST_TOKENS  # however many there are, every few seconds
    assert (len(many["tokens"]), many["more"]) == (MOST_TOKENS, 2)
    assert many["tokens"][0]["name"] == f"d{MOST_TOKENS - 1}"
    assert page.ask("/api/tenant?tenant=nobody").status == 400


def test_the_audit_logs_last_lines_are_told(page: Door, jobs: Jobs) -> None:
    for _ in range(A_PAGE):
        audit_log.note(jobs.database, "job cancelled", "other", "an-id")
    told = page.ask("/api/acts").json["acts"]
    assert len(told) == A_PAGE
    assert told[0]["what"] == "job cancelled"
    (enrolled,) = page.ask("/api/acts?tenant=acme").json["acts"]
    assert enrolled["what"] == "tenant enrolled"


def test_processes_are_asked_once_however_many_look(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = free_address()
    looked = 0
    look = views.processes

    def counted(*asked: object) -> views.View:
        nonlocal looked
        looked += 1
        return look(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(views, "processes", counted)
    monkeypatch.setattr("sottovoce.cloud.page._FRESH_SECONDS", 3600.0)
    with page_of(jobs.database, [nobody], [nobody]) as page:
        first, second = page.ask("/api/processes").json, page.ask("/api/processes").json
    assert first == second
    assert nobody in first["health"][0]["error"]
    assert "--metrics" in first["metrics"][0]["fix"]
    assert looked == 1


@pytest.mark.parametrize(
    "asked", ["/api/jobs?state=none", "/api/jobs?page=x", "/api/jobs?more=1", "/api/acts?page=1"]
)
def test_what_there_is_not_is_refused(page: Door, asked: str) -> None:
    answer = page.ask(asked)
    assert (answer.status, answer.error["code"]) == (400, "invalid_input")


def test_no_text_of_anybody_is_told_and_nothing_is_changed(tmp_path: Path, jobs: Jobs) -> None:
    job = create(jobs, "secret", "other")
    rows = [Example(f"{CANARY} {i}", f"{CANARY}-{i % 2}") for i in range(12)]
    jobs.start(job.id, "other", fill(jobs, job, rows))
    jobs.cancel(jobs.page("other", state=State.QUEUED)[0][-1].id)
    _, lease = claim(jobs)
    Queue(jobs.database).begin(lease, (f"{CANARY}-0", f"{CANARY}-1"))
    assert f"{CANARY}-0" in jobs.get(job.id).labels

    def held() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "sottovoce.db")) as connection:
            return [*connection.iterdump()]

    before = held()
    with page_of(jobs.database) as page:
        for path in PATHS:
            answer = page.ask(path)
            assert answer.status == 200
            assert CANARY not in answer.body.decode()
    assert held() == before
