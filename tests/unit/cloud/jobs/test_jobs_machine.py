"""Whatever tenants, worker and crashes do, in any order, the database agrees with a plain model."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import event, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import FINAL, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.errors import NotFound, NotReady, QuotaExceeded
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.stores import FileStore, Store

TENANTS = ("acme", "other")
UPLOADS = [Upload(f"e{i}", row) for i, row in enumerate(examples(9))]
WAITING = (State.UPLOADING, State.QUEUED)
OWNERS = ("one", "two")
picked = st.integers(0, 4)


class JobStore(RuleBasedStateMachine):
    """The model: of each job its tenant, state, number of examples, and whether it was deleted."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.folder = tempfile.TemporaryDirectory()
        self.open()
        for name in TENANTS:
            Tenants(self.jobs.database).enroll(name)
        self.tenant: dict[str, str] = {}
        self.state: dict[str, State] = {}
        self.held: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.purged: set[str] = set()
        self.lease: dict[str, tuple[str, Lease]] = {}
        self.stale: list[Lease] = []

    def open(self) -> None:
        self.jobs = Jobs(self.store.open(Path(self.folder.name)), ServerLimits(unfinished_jobs=3))
        self.queue = Queue(self.jobs.database)

    def teardown(self) -> None:
        self.jobs.database.close()
        self.folder.cleanup()

    def job(self, place: int) -> str | None:
        return list(self.state)[place] if place < len(self.state) else None

    @rule(tenant=st.sampled_from(TENANTS))
    def create(self, tenant: str) -> None:
        unfinished = [
            j
            for j, state in self.state.items()
            if self.tenant[j] == tenant and state not in FINAL and j not in self.deleted
        ]
        try:
            job = self.jobs.create(tenant, f"r{len(self.state)}", "a", TrainingOptions(), RELEASE)
        except QuotaExceeded:
            assert len(unfinished) == 3
            return
        assert len(unfinished) < 3
        self.tenant[job.id], self.state[job.id], self.held[job.id] = tenant, State.UPLOADING, 0

    @rule(tenant=st.sampled_from(TENANTS))
    def queue(self, tenant: str) -> None:
        """The usual way, all at once: chance alone seldom gets a job as far as the worker."""
        before = len(self.state)
        self.create(tenant)
        if len(self.state) > before:
            self.upload(before, 0, 9)
            self.start(before)

    @rule(place=picked, first=st.sampled_from((0, 4)), count=st.sampled_from((4, 5, 9)))
    def upload(self, place: int, first: int, count: int) -> None:
        if (job := self.job(place)) is None or first > self.held[job]:
            return
        sent = UPLOADS[first : first + count]
        fresh = first + len(sent) > self.held[job]
        try:
            held = append(self.jobs, job, self.tenant[job], first, sent, len(WORDS))
        except NotFound:
            assert job in self.deleted
            return
        except NotReady:
            assert self.state[job] != State.UPLOADING
            assert fresh or self.state[job] == State.CANCELLED
            return
        assert job not in self.deleted
        if fresh:
            assert self.state[job] == State.UPLOADING
            self.held[job] = first + len(sent)
        assert held == self.held[job]

    @rule(place=picked)
    def start(self, place: int) -> None:
        if (job := self.job(place)) is None:
            return
        try:
            self.jobs.start(job, self.tenant[job], 9)
        except NotFound:
            assert job in self.deleted
        except NotReady:
            cancelled = self.state[job] == State.CANCELLED
            assert cancelled or (self.state[job] == State.UPLOADING and self.held[job] < 9)
        else:
            if self.state[job] == State.UPLOADING:
                assert self.held[job] == 9
                self.state[job] = State.QUEUED

    @rule(place=picked)
    def cancel(self, place: int) -> None:
        if (job := self.job(place)) is None:
            return
        try:
            self.jobs.cancel(job, self.tenant[job])
        except NotFound:
            assert job in self.deleted
        else:
            if self.state[job] in WAITING:
                self.state[job] = State.CANCELLED

    @rule(place=picked)
    def delete(self, place: int) -> None:
        if (job := self.job(place)) is None:
            return
        try:
            ended = self.jobs.delete(job, self.tenant[job])
        except NotFound:
            assert job in self.deleted
            return
        self.deleted.add(job)
        if self.state[job] in WAITING:
            self.state[job] = State.CANCELLED
        assert ended == (self.state[job] in FINAL)

    @rule()
    def purge(self) -> None:
        left = {job.id for job in self.jobs.unpurged()}
        ended = {j for j in self.deleted - self.purged if self.state[j] in FINAL}
        assert left == ended
        for job in left:
            self.jobs.purge(job)
        self.purged |= left

    @rule(owner=st.sampled_from(OWNERS))
    def claim(self, owner: str) -> None:
        """By a worker that may be new, or another process of one that died."""
        claimed = self.queue.claim(owner)
        mine = [
            j for j, s in self.state.items() if s == State.RUNNING and self.lease[j][0] == owner
        ]
        if claimed is None:
            assert not mine
            assert State.QUEUED not in self.state.values()
            return
        job, lease = claimed
        assert not mine or job.id == mine[0], "the job left running comes first"
        assert job.next_sequence == len(self.queue.examples(job.id)) == 9
        before = self.lease.get(job.id)
        assert before is None or lease.token > before[1].token
        if before is not None:
            self.stale.append(before[1])
        self.lease[job.id] = (owner, lease)
        self.state[job.id] = State.RUNNING
        event("claimed")

    @rule(place=picked, end=st.sampled_from(State))
    def finish(self, place: int, end: State) -> None:
        job = self.job(place)
        if job is None or job not in self.lease:
            return
        try:
            deleted = self.queue.finish(self.lease[job][1], end)
        except LeaseLost:
            assert self.state[job] != State.RUNNING
            return
        except NotReady:
            assert end not in FINAL
            return
        assert self.state[job] == State.RUNNING
        assert end in FINAL
        self.state[job] = end
        event(f"ended {end}, deleted {deleted}")
        assert deleted == (job in self.deleted)

    @rule()
    def wake_late(self) -> None:
        """Let workers without their lease try to end the job."""
        for lease in self.stale:
            with pytest.raises(LeaseLost):
                self.queue.finish(lease, State.FAILED)
            event("refused")

    @rule(end=st.sampled_from(sorted(FINAL)))
    def work(self, end: State) -> None:
        """Do one job without disturbance."""
        self.claim(OWNERS[0])
        for place, state in enumerate(self.state.values()):
            if state == State.RUNNING:
                self.finish(place, end)
                return

    @rule()
    def crash(self) -> None:
        """Forget all state in memory; committed rows stay."""
        self.jobs.database.close()
        self.open()

    @invariant()
    def store_and_model_agree(self) -> None:
        for job, state in self.state.items():
            if job in self.deleted:
                continue
            found = self.jobs.get(job, self.tenant[job])
            assert (found.state, found.next_sequence) == (state, self.held[job])
        with self.jobs.database.read() as transaction:
            counted = transaction.rows("SELECT job, count(*) AS n FROM examples GROUP BY job")
        rows = {row["job"]: row["n"] for row in counted}
        expected = {j: n for j, n in self.held.items() if n and self.state[j] not in FINAL}
        assert rows == expected, "examples are kept while they are needed, and no longer"


def test_the_database_agrees_with_the_model(store: Store) -> None:
    examples = 12 if isinstance(store, FileStore) else 8  # each statement is a round trip there
    run_state_machine_as_test(
        partial(JobStore, store),
        settings=settings(max_examples=examples, stateful_step_count=50, deadline=None),
    )
