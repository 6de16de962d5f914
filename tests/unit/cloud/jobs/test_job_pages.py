"""A list of jobs comes page by page: every job once, the newest first, none too large to send."""

from __future__ import annotations

import json

import pytest

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.jobs import PAGE_BYTES, Jobs
from sottovoce.core.errors import InvalidInput
from tests.support.jobs import create


def test_pages_hold_every_job_once_newest_first(jobs: Jobs) -> None:
    made = []
    for i in range(7):
        made.append(create(jobs, f"r{i}").id)
        jobs.cancel(made[-1])
    found, token = [], ""
    while True:
        page, token = jobs.page("acme", page_size=3, page_token=token)
        found += [job.id for job in page]
        if not token:
            break
    assert found == made[::-1]
    with pytest.raises(InvalidInput, match="page token"):
        jobs.page("acme", page_token="x' OR 1")  # noqa: S106


def test_pages_may_be_of_one_state(jobs: Jobs) -> None:
    made = [create(jobs, f"r{i}").id for i in range(3)]
    jobs.cancel(made[1])
    other = create(jobs, "r", "other").id
    page, token = jobs.page(state=State.UPLOADING, page_size=2)
    assert [job.id for job in page] == [other, made[2]]
    page, token = jobs.page(state=State.UPLOADING, page_size=2, page_token=token)
    assert ([job.id for job in page], token) == ([made[0]], "")
    assert [job.id for job in jobs.page("acme", state=State.CANCELLED)[0]] == [made[1]]
    assert jobs.page("other", state=State.CANCELLED) == ([], "")


@pytest.mark.parametrize("token", ["x", "-1", "9" * 19, "9" * 5_000, "\u0663"])
def test_a_page_token_of_somebody_else_is_refused(jobs: Jobs, token: str) -> None:
    with pytest.raises(InvalidInput, match="page token") as caught:
        jobs.page("acme", page_token=token)
    assert caught.value.subject == "page_token"


def test_a_page_ends_where_a_message_would_be_too_large(jobs: Jobs) -> None:
    made = [jobs.cancel(create(jobs, str(i)).id).id for i in range(6)]
    with jobs.database.write() as transaction:
        labels = json.dumps([f"{i:0256}" for i in range(1_500)])  # 390 kB
        transaction.change("UPDATE jobs SET labels = :labels", labels=labels)
    found: list[str] = []
    token, pages = "", 0
    while token or not pages:
        page, token = jobs.page("acme", page_token=token)
        assert 1 <= len(page) <= 2
        found += [job.id for job in page]
        pages += 1
    assert found == made[::-1]


def test_a_page_holds_fifty_unless_more_are_asked_for_and_never_above_200(jobs: Jobs) -> None:
    roomy = Jobs(jobs.database, ServerLimits(unfinished_jobs=1_000))
    made = [create(roomy, str(i)).id for i in range(202)][::-1]
    for asked, given in ((0, 50), (1, 1), (200, 200), (201, 200)):
        page, token = jobs.page("acme", page_size=asked)
        assert [job.id for job in page] == made[:given]
        assert token
    assert jobs.page("acme") == jobs.page("acme", page_size=50)
    page, token = jobs.page("acme", page_size=2, page_token=jobs.page(page_size=200)[1])
    assert ([job.id for job in page], token) == (made[200:], ""), "the last page is full"
    other = create(jobs, "r", "other")
    assert [job.id for job in jobs.page("other")[0]] == [other.id]
    assert [job.id for job in jobs.page(page_size=2)[0]] == [other.id, made[0]]
    roomy.delete(made[0])
    assert jobs.page("acme", page_size=1)[0][0].id == made[1]


def test_one_jobs_labels_may_fill_a_page_of_their_own(jobs: Jobs) -> None:
    made = [create(jobs, str(i)).id for i in range(2)]
    with jobs.database.write() as transaction:
        transaction.change(
            "UPDATE jobs SET labels = :labels", labels=json.dumps(["x" * PAGE_BYTES])
        )
    page, token = jobs.page("acme")
    assert [job.id for job in page] == made[1:]
    assert [job.id for job in jobs.page("acme", page_token=token)[0]] == made[:1]


def test_a_page_may_be_just_full(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [create(jobs, str(i)).id for i in range(3)]
    monkeypatch.setattr("sottovoce.cloud.jobs.jobs.PAGE_BYTES", 2 * len("[]"))
    page, _ = jobs.page("acme")
    assert [job.id for job in page] == made[:0:-1]
