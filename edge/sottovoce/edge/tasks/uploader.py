"""Carry customisations to the cloud and follow them until they end.

This half of a customisation must survive lost networks, restarts on either side, and kill -9 at any
instruction. So the uploader keeps no position. Each attempt asks the cloud how much it has:
CreateJob is idempotent, and ``next_sequence`` counts committed examples. The attempt then continues
with the exact bytes that were queued.

    UPLOADING -- all examples held, job started --> TRAINING --> SUCCEEDED | FAILED | CANCELLED
"""

from __future__ import annotations

import logging
import random
import threading
from itertools import islice

from sottovoce.core.errors import (
    BundleMismatch,
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfRange,
    QuotaExceeded,
    SottovoceError,
)
from sottovoce.core.platform.threads import join
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.streams import pad
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.state.ledger import Purpose, Record, released_texts
from sottovoce.edge.state.outbox import ENDED, OpaqueIds, Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

# Errors that a retry cannot fix. All others are retried, even the owner's mistakes: a missing token
# or address can be added while the examples wait.
_FATAL = (InvalidInput, NotFound, BundleMismatch, DataLoss)
_TIMES = 3
"""Number of times in a row before a refusal is believed.

Without TLS, a lost or altered frame may make the cloud refuse data that was never sent.
"""
_TOO_LARGE = ("examples", "upload_bytes")  # limits on one job, which waiting does not lift
_MESSAGES_A_CALL = 4
_LONGEST_WAIT = 60.0
_ENDS = {
    training.JOB_STATE_SUCCEEDED: agent.CUSTOMIZATION_STATE_SUCCEEDED,
    training.JOB_STATE_FAILED: agent.CUSTOMIZATION_STATE_FAILED,
    training.JOB_STATE_CANCELLED: agent.CUSTOMIZATION_STATE_CANCELLED,
}
_log = logging.getLogger(__name__)


class Uploader:
    """Runs one thread for each unfinished customisation.

    Args:
        first_wait: seconds before the second attempt; doubles up to a minute.
    """

    def __init__(
        self,
        cloud: Cloud,
        outbox: Outbox,
        record: Record | None = None,
        *,
        first_wait: float = 1.0,
    ) -> None:
        self._record = record or Record()
        self._cloud = cloud
        self._outbox = outbox
        self._first_wait = first_wait
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}

    def resume(self) -> None:
        """Resume every customisation that was unfinished when the agent last stopped."""
        for identity in self._outbox.unfinished():
            self.carry(identity)

    def carry(self, identity: str) -> None:
        """Start a thread for a customisation, unless it has one."""
        with self._lock:
            if identity not in self._threads and not self._stopped.is_set():
                thread = threading.Thread(
                    target=self._run, args=(identity,), name=f"uploader-{identity[:8]}", daemon=True
                )
                self._threads[identity] = thread
                thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End all attempts, and close the cloud's channel.

        Waits at most ``seconds`` for the threads. Nothing is lost.
        """
        self._stopped.set()
        self._cloud.close()
        with self._lock:
            threads = list(self._threads.values())
        join(threads, seconds)

    def _run(self, identity: str) -> None:
        try:
            self._until_ended(identity)
        except SottovoceError as error:  # the store itself refused, so nothing can be noted
            _log.error("customisation %s stands still: %s", identity, error)
        finally:
            with self._lock:
                del self._threads[identity]

    def _until_ended(self, identity: str) -> None:
        wait, refused = self._first_wait, 0
        names = self._outbox.pseudonyms(self._outbox.get(identity))
        while not self._stopped.is_set():
            record = self._outbox.get(identity)
            if record.state in ENDED:
                return
            before = (record.state, record.uploaded)
            try:
                with telemetry.span("upload"):
                    self._attempt(record, names)
                wait, refused = self._first_wait, 0
            except SottovoceError as raised:
                if self._stopped.is_set():
                    return
                error = names.revealed(raised)
                refused = refused + 1 if _is_fatal(error) else 0
                if refused >= _TIMES and self._failed(record, error):
                    return
                if (record.state, record.uploaded) != before:
                    wait = self._first_wait
                record.message = f"waiting: {error}"
                self._outbox.show(record)
            self._stopped.wait(wait * random.uniform(0.75, 1.25))
            wait = min(2 * wait, _LONGEST_WAIT)

    def _failed(self, record: agent.Customization, error: SottovoceError) -> bool:
        """Note a failure; return False if there is no room for the note, which may pass."""
        record.message = str(error)
        try:
            self._note(record, agent.CUSTOMIZATION_STATE_FAILED)
        except QuotaExceeded:
            return False
        _log.warning("customisation %s failed: %s", record.id, type(error).__name__)
        return True

    def _attempt(self, record: agent.Customization, names: OpaqueIds) -> None:
        """Carry the customisation as far as possible, and update `record`."""
        if record.job_id:
            job = self._cloud.get_job(record.job_id)
        else:
            job = self._cloud.create_job(self._outbox.job_request(record.id))
            record.job_id = job.id
            if not self._outbox.save(record):  # cancelled meanwhile
                self._cloud.cancel_job(job.id)
                return
        if job.state == training.JOB_STATE_UPLOADING:
            self._upload(record, job.next_sequence)
            job = self._cloud.start_job(record.job_id, record.examples)
        record.uploaded = record.examples
        self._follow(record, job, names)
        if record.state not in ENDED:
            for job in self._cloud.watch_job(record.job_id):
                self._follow(record, job, names)
                if record.state in ENDED or self._stopped.is_set():
                    return

    def _upload(self, record: agent.Customization, following: int) -> None:
        record.uploaded = following
        while following < record.examples:
            waiting = self._outbox.batches(record.id, following)
            messages = list(islice(waiting, _MESSAGES_A_CALL))
            if not messages:
                raise DataLoss(
                    "queued examples are gone from the agent's database",
                    fix="customise again; what was released before is not charged again",
                    subject="outbox",
                )
            for message in messages:
                message.job_id = record.job_id
                told = (
                    text
                    for each in message.examples
                    for text in (each.label, *released_texts(each))
                )
                purpose = Purpose("customize", record.adapter)
                note = f"{len(message.examples)} examples"
                self._record.note(purpose, self._cloud.address, told, note)
                pad(message)
            record.message = ""
            record.bytes_sent += sum(message.ByteSize() for message in messages)
            taken = self._cloud.upload(messages)
            if taken <= following:
                raise OutOfRange("the cloud took none of the examples it was sent")
            record.uploaded = following = taken
            self._outbox.show(record)

    def _follow(self, record: agent.Customization, job: training.Job, names: OpaqueIds) -> None:
        record.message = names.reveal(job.message)
        if job.state == training.JOB_STATE_QUEUED:
            record.message = "queued in the cloud"
        record.progress.CopyFrom(job.progress)
        state = _ENDS.get(job.state, agent.CUSTOMIZATION_STATE_TRAINING)
        if record.state != state:
            self._note(record, state)
        else:
            self._outbox.show(record)

    def _note(self, record: agent.Customization, state: agent.CustomizationState) -> None:
        """Write a new state to disk.

        If the write fails, `record` keeps its old state, because a shown state would be believed.
        """
        before, record.state = record.state, state
        try:
            self._outbox.save(record)
        except SottovoceError:
            record.state = before
            raise


def _is_fatal(error: SottovoceError) -> bool:
    if isinstance(error, NotReady):
        return error.subject != "cloud.address"
    if isinstance(error, QuotaExceeded):
        return error.subject in _TOO_LARGE
    return isinstance(error, _FATAL)
