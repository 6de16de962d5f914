"""Jobs that go on from an adapter: what it must be, and that nobody's examples are lost.

Why it is here: several devices add to one adapter, each in jobs of its own, and trainers may be
many. A job goes on from what the adapter is when its turn comes; if the adapter was changed before
the job ends, what it trained lacks the others' examples, so it is trained once more.
"""

from __future__ import annotations

from collections.abc import Collection

from sottovoce.cloud.job import Job, TrainingOptions
from sottovoce.cloud.jobs.records import job_of
from sottovoce.cloud.state.database import Transaction
from sottovoce.core.errors import NotReady

__all__ = ["BaseMoved", "check_base", "check_unmoved"]

_SAME = ("method", "rank", "virtual_tokens", "task")
_NEITHER = ("dp_epsilon", "label_words", "pate")


class BaseMoved(NotReady):
    """The adapter is no longer what a job went on from."""


def check_base(
    transaction: Transaction,
    tenant: str,
    adapter: str,
    options: TrainingOptions,
    labels: Collection[str] = (),
) -> None:
    """Refuses a job that cannot go on from the adapter as it is.

    Args:
        tenant, adapter: whose, and which.
        options: of the job.
        labels: of its examples, once they are there.

    Raises:
        NotReady: there is no such adapter, it is of another kind, or it has not those labels.
    """
    row = transaction.row(
        "SELECT * FROM jobs WHERE id = "
        "(SELECT job FROM adapters WHERE tenant = :tenant AND name = :adapter)",
        tenant=tenant,
        adapter=adapter,
    )
    if row is None:
        raise NotReady(
            "there is no adapter to go on from",
            fix="train one first, without continues",
            subject="adapter",
        )
    base = job_of(row)
    for name in (*_SAME, *_NEITHER):
        theirs, ours = getattr(base.training, name), getattr(options, name)
        if theirs != ours or (name in _NEITHER and theirs):
            raise NotReady(
                f"the adapter was trained with another {name.replace('_', ' ')}",
                fix="give the settings it was trained with, or train it anew",
                subject=f"training.{name}",
            )
    unknown = sorted(set(labels) - set(base.labels))
    if unknown:
        raise NotReady(
            f"the adapter does not know {len(unknown)} of the labels",
            fix="train it anew with all labels",
            subject="label",
        )


def check_unmoved(transaction: Transaction, job: Job, base: str) -> None:
    """Sees to it that a job's adapter takes the place of what it went on from, and of nothing else.

    Raises:
        BaseMoved: another has that place. NotReady: the adapter is gone.
    """
    row = transaction.lock(
        "SELECT sha256 FROM adapters WHERE tenant = :tenant AND name = :adapter",
        tenant=job.tenant,
        adapter=job.adapter,
    )
    if row is None:
        raise NotReady("the adapter was deleted meanwhile", fix="train it anew", subject="adapter")
    if row["sha256"] != base:
        raise BaseMoved("the adapter was changed meanwhile", fix="go on from what it is now")
