"""Encrypted examples in the database: one or more blocks for each uploaded message.

A row for each example holds its number and the id drawn by the device. Texts, labels and other
fields are in the blocks. Without the key, a reader sees only the number of examples and the
approximate size of the messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from sottovoce.cloud.job import Example
from sottovoce.cloud.state.database import Transaction
from sottovoce.cloud.state.keys import Cipher
from sottovoce.core.errors import DataLoss

__all__ = ["drop", "labels", "read", "write"]

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
