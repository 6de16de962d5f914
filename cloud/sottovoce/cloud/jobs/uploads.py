"""Upload of examples: exactly once, in order, one transaction for each message.

A device may lose its connection at any byte, and sends again anything unconfirmed. So each message
is stored whole or not at all. Examples already held are skipped. A gap is refused, and the error
names the number to continue from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Job, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs, records
from sottovoce.cloud.jobs.records import find, job_of
from sottovoce.cloud.store.database import Transaction
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import InvalidInput, NotReady, OutOfRange, QuotaExceeded


@dataclass(frozen=True, slots=True)
class Upload:
    """An example with the id drawn by the device."""

    example_id: str
    example: Example


def append(
    jobs: Jobs, job_id: str, tenant: str, first: int, uploads: Sequence[Upload], words: int
) -> int:
    """Store ``uploads`` as sequences ``first``, ``first + 1``, ...

    Args:
        words: length of the bundle's word list, which bounds plain token ids.

    Returns:
        the next expected sequence number.

    Raises:
        OutOfRange: a gap; metadata "next_sequence" holds the number to continue from.
        InvalidInput: a malformed example, or one that contradicts a stored example.
        NotReady: the job is no longer uploading.
        QuotaExceeded: too many examples or bytes, for the job or all the tenant's unfinished jobs.
        Unavailable: see `Keys.fetch`.
    """
    limits = quotas.of(jobs.database, tenant, jobs.limits)
    with jobs.database.read() as transaction:
        uploading = job_of(find(transaction, job_id, tenant)).state == State.UPLOADING
    if uploading and uploads:
        jobs.database.keys.fetch(jobs.database, job_id, make=True)
    with jobs.database.write() as transaction:
        quotas.lock(transaction, tenant)
        job = job_of(find(transaction, job_id, tenant, lock=True))
        held = job.next_sequence
        fresh = uploads[max(0, held - first) :]
        if job.state != State.UPLOADING and (fresh or job.state == State.CANCELLED):
            raise NotReady(
                f"the job is {job.state} and takes no more examples",
                fix="create a new job",
                subject="state",
            )
        if first > held:
            raise OutOfRange(
                f"the message starts at {first}, the job expects {held}",
                fix="go on from next_sequence",
                subject="first_sequence",
                metadata={"next_sequence": str(held)},
            )
        if held + len(fresh) > limits.examples:
            raise _too_large(f"{limits.examples} examples", "examples")
        size = job.bytes + sum(map(_size, fresh))
        most = min(limits.upload_bytes, limits.held_bytes)
        if size > most:
            raise _too_large(f"{most} bytes of examples", "upload_bytes")
        if fresh:
            _check_held(transaction, job, size, limits)
        if job.state == State.UPLOADING:
            _compare(transaction, job_id, first, uploads[: len(uploads) - len(fresh)])
        for sequence, upload in enumerate(fresh, start=held):
            _check(upload, limits, sequence, job.training, words)
            _insert(transaction, job_id, sequence, upload)
        if fresh:
            cipher = jobs.database.keys.make(transaction, job_id)
            records.write(transaction, cipher, job_id, held, [each.example for each in fresh])
        transaction.change(
            "UPDATE jobs SET next_sequence = :next, bytes = :bytes, updated = :now, "
            "touched = (SELECT awake FROM clock) WHERE id = :job",
            next=held + len(fresh),
            bytes=size,
            now=transaction.now(),
            job=job_id,
        )
        return held + len(fresh)


def _size(upload: Upload) -> int:
    example = upload.example
    parts = (example.text, example.label, example.output, *example.plain_tokens)
    return sum(len(part.encode()) for part in parts)


def _too_large(most: str, limit: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"a job holds at most {most}",
        fix="send fewer, split them over two adapters, or ask the provider for more",
        subject=limit,
    )


def _check_held(transaction: Transaction, job: Job, size: int, limits: ServerLimits) -> None:
    (others,) = transaction.rows(
        "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM jobs "
        "WHERE tenant = :tenant AND id <> :job AND state IN ('UPLOADING', 'QUEUED', 'RUNNING')",
        tenant=job.tenant,
        job=job.id,
    )
    if others["bytes"] + size > limits.held_bytes:
        raise QuotaExceeded(
            f"your unfinished jobs hold {others['bytes']} bytes, and may hold {limits.held_bytes}",
            fix="wait for one to finish, or cancel or delete one, then go on",
            subject="held_bytes",
        )


def _compare(transaction: Transaction, job_id: str, first: int, repeats: Sequence[Upload]) -> None:
    for sequence, upload in enumerate(repeats, start=first):
        (row,) = transaction.rows(
            "SELECT example_id FROM examples WHERE job = :job AND sequence = :sequence",
            job=job_id,
            sequence=sequence,
        )
        if row["example_id"] != upload.example_id:
            raise InvalidInput(
                f"sequence {sequence} was sent before with another example",
                fix="keep the order and the ids of examples on every retry",
                subject="example_id",
            )


def _insert(transaction: Transaction, job_id: str, sequence: int, upload: Upload) -> None:
    stored = transaction.change(
        "INSERT INTO examples (job, sequence, example_id) VALUES (:job, :sequence, :example_id) "
        "ON CONFLICT (job, example_id) DO NOTHING",
        job=job_id,
        sequence=sequence,
        example_id=upload.example_id,
    )
    if not stored:
        raise InvalidInput(
            f"the example at sequence {sequence} is held already at another",
            fix="give every example its own id",
            subject="example_id",
        )


def _check(
    upload: Upload, limits: ServerLimits, sequence: int, options: TrainingOptions, words: int
) -> None:
    example, plain_tokens = upload.example, options.plain_tokens
    plain, ids = example.plain_tokens, example.plain_token_ids
    wrong = ""
    if not 1 <= len(upload.example_id) <= 64:
        wrong, fix = "example_id", "give 1 to 64 characters"
    elif "\0" in "".join((upload.example_id, example.text, example.label, example.output)):
        wrong, fix = "example", "leave NUL characters out; not every database keeps them"
    elif not example.text.strip():
        wrong, fix = "released_text", "leave empty texts out"
    elif len(example.text.encode()) > limits.text:
        wrong, fix = "released_text", f"at most {limits.text} bytes a text"
    elif options.writes and example.label:
        wrong, fix = "label", "give outputs, and no labels, for generation"
    elif bool(example.output.strip()) != options.writes:
        wrong, fix = "released_output", "give one for generation, and none otherwise"
    elif len(example.output.encode()) > limits.text:
        wrong, fix = "released_output", f"at most {limits.text} bytes a text"
    elif not (example.label or options.writes or options.pate):
        wrong, fix = "label", "only public texts, for PATE, have none"
    elif len(example.label) > limits.label_characters:
        wrong, fix = "label", f"give 1 to {limits.label_characters} characters"
    elif len(plain) != plain_tokens or len(ids) != plain_tokens:
        wrong, fix = "plain_token_ids", f"the job takes {plain_tokens} plain tokens an example"
    elif any(not 0 <= number < words for number in ids):
        wrong, fix = "plain_token_ids", f"ids are below {words}, the bundle's number of words"
    elif any(not 1 <= len(token) <= 256 for token in plain):
        wrong, fix = "released_plain_tokens", "give words of 1 to 256 characters"
    if wrong:
        raise InvalidInput(f"example {sequence}: {wrong} is not valid", fix=fix, subject=wrong)
