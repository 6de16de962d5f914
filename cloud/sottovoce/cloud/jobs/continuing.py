"""Jobs that continue from an existing adapter, without losing another job's examples.

Several devices may add to one adapter, each in its own jobs, and several trainers may run. A job
starts from the adapter as it is when training begins. If another job replaces the adapter before
this job ends, the result lacks the other job's examples. The job is then trained again.
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
    """The adapter changed after a job started from it."""


def check_base(
    transaction: Transaction,
    tenant: str,
    adapter: str,
    options: TrainingOptions,
    labels: Collection[str] = (),
) -> None:
    """Refuse a job that cannot continue from the current adapter.

    Args:
        tenant, adapter: the adapter's tenant and its name.
        options: the job's options.
        labels: the labels of the job's examples, once they are uploaded.

    Raises:
        NotReady: the adapter does not exist, is of another kind, or has other labels.
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
    """Check that the adapter has not changed since the job started from it.

    Raises:
        BaseMoved: another adapter has taken the name. NotReady: the adapter is gone.
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
