"""A job's rows in the database: the job, its encrypted examples, and the adapter it continues."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from sottovoce.cloud.job import (
    FINAL,
    TRANSITIONS,
    Example,
    Job,
    Progress,
    Release,
    State,
    TrainingOptions,
)
from sottovoce.cloud.store.database import Row, Transaction
from sottovoce.cloud.store.keys import Cipher
from sottovoce.core.errors import DataLoss, NotFound, NotReady

_BLOCK: Final = 1 << 18
"""Characters of text after which a block ends: deleting one on a full disk takes some space."""


def write(
    transaction: Transaction, cipher: Cipher, job: str, first: int, examples: Sequence[Example]
) -> None:
    """Add blocks; ``first`` is the number of the first example in the job."""
    for block in _blocks(examples):
        rows = [(e.text, e.plain_tokens, e.plain_token_ids, e.output) for e in block]
        transaction.change(
            "INSERT INTO blocks (job, first, labels, texts) VALUES (:job, :first, :labels, :texts)",
            job=job,
            first=first,
            labels=cipher.seal([e.label for e in block], f"{job} {first} labels"),
            texts=cipher.seal(rows, f"{job} {first} texts"),
        )
        first += len(block)


def _blocks(examples: Sequence[Example]) -> Iterator[list[Example]]:
    block: list[Example] = []
    size = 0
    for example in examples:
        block.append(example)
        size += len(example.text) + len(example.output)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def read(transaction: Transaction, cipher: Cipher, job: str, number: int) -> list[Example]:
    """Return all examples of a job, in the order of upload.

    Raises:
        DataLoss: a block was altered, or the count differs from ``number``.
    """
    rows = transaction.rows("SELECT * FROM blocks WHERE job = :job ORDER BY first", job=job)
    found = [
        Example(text, label, tuple(tokens), tuple(ids), output)
        for row in rows
        for label, (text, tokens, ids, output) in zip(
            cipher.unseal(row["labels"], f"{job} {row['first']} labels"),
            cipher.unseal(row["texts"], f"{job} {row['first']} texts"),
            strict=True,
        )
    ]
    if len(found) != number:
        raise DataLoss(
            f"the cloud holds {len(found)} examples of the job, not {number}",
            fix="customise again; the provider may have brought back half a backup",
            subject="examples",
        )
    return found


def labels(transaction: Transaction, cipher: Cipher, job: str) -> Counter[str]:
    """Count the examples of each label.

    Raises:
        DataLoss: a block was altered.
    """
    rows = transaction.rows("SELECT first, labels FROM blocks WHERE job = :job", job=job)
    found: Counter[str] = Counter()
    for row in rows:
        found.update(cipher.unseal(row["labels"], f"{job} {row['first']} labels"))
    return found


def drop(transaction: Transaction, job: str) -> None:
    """Delete a job's examples and their key.

    A key stored in the job's row goes at once. A key stored elsewhere goes with the next
    `Database.scrub`.
    """
    transaction.change("DELETE FROM keys WHERE job = :job AND wrapped <> :no", job=job, no=b"")
    transaction.change("UPDATE keys SET ended = 1 WHERE job = :job", job=job)
    transaction.change("DELETE FROM blocks WHERE job = :job", job=job)
    transaction.change("DELETE FROM examples WHERE job = :job", job=job)


def job_of(row: Row) -> Job:
    return Job(
        id=row["id"],
        tenant=row["tenant"],
        adapter=row["adapter"],
        state=State(row["state"]),
        training=TrainingOptions(**json.loads(row["training"])),
        release=Release(**json.loads(row["release"])),
        next_sequence=row["next_sequence"],
        attempts=row["attempts"],
        cancel_requested=bool(row["cancel_requested"]),
        created=row["created"],
        updated=row["updated"],
        message=row["message"],
        labels=tuple(json.loads(row["labels"])),
        progress=Progress(**json.loads(row["progress"])),
        bytes=row["bytes"],
        trained=row["trained"],
        trace=row["trace"],
    )


def find(
    transaction: Transaction, job_id: str, tenant: str | None = None, *, lock: bool = False
) -> Row:
    """Return the row of a job that was not deleted; ``tenant`` None finds any tenant's.

    Args:
        lock: lock the row, because a decision depends on it.

    Raises:
        NotFound: the job does not exist, or belongs to another tenant.
    """
    asked = transaction.lock if lock else transaction.row
    row = asked("SELECT * FROM jobs WHERE id = :job AND deleted = 0", job=job_id)
    if row is not None and tenant in (None, row["tenant"]):
        return row
    if tenant is None:
        raise NotFound("no such job", fix="see `sotto-cloud jobs list`", subject=job_id)
    raise NotFound(
        "no such job for this tenant", fix="list yours with `sotto status`", subject=job_id
    )


def move(transaction: Transaction, job: Job, state: State, message: str = "") -> Job:
    """Return the job in its new state; the caller has locked its row.

    Raises:
        NotReady: `TRANSITIONS` does not allow the change.
    """
    if state not in TRANSITIONS[job.state]:
        raise NotReady(
            f"a job that is {job.state} cannot become {state}",
            fix="look at its state with `sotto-cloud jobs show`",
            subject="state",
        )
    if state in FINAL:
        # The cloud deletes released texts once they are not needed.
        drop(transaction, job.id)
    (row,) = transaction.rows(
        "UPDATE jobs SET state = :state, message = :message, updated = :now WHERE id = :job "
        "RETURNING *",
        state=str(state),
        message=message,
        now=transaction.now(),
        job=job.id,
    )
    return job_of(row)


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
