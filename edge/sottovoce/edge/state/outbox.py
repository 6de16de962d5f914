"""Customisations on the device: their records, and the privatised examples waiting to be sent.

Why it is here: a customisation outlives the call that asked for it, the daemon, and days without a
network. What must survive is written before anyone is told; progress figures, which come twice a
second and mean nothing tomorrow, stay in memory to spare the device's flash.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping

from sottovoce.core.errors import NotFound, QuotaExceeded
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.state import corrections
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.opaque_ids import BY_ID, Pseudonyms
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["ENDED", "LARGEST_BATCH", "UNFINISHED_LIMIT", "Outbox", "is_usable", "setting_of"]

ENDED = (
    agent.CUSTOMIZATION_STATE_SUCCEEDED,
    agent.CUSTOMIZATION_STATE_FAILED,
    agent.CUSTOMIZATION_STATE_CANCELLED,
)
UNFINISHED_LIMIT = 20
LARGEST_BATCH = 64
_BATCH_BYTES = 512 << 10


class Outbox:
    """Records by id, sealed in `store`; newest figures of running ones in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[str, agent.Customization] = {}
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def find_request(self, request_id: str) -> agent.Customization | None:
        """The customisation that an earlier call with this id made."""
        rows = self._store.rows(
            "SELECT id FROM customizations WHERE request = ?", self._request_key(request_id)
        )
        return self.get(rows[0][0]) if rows else None

    def get(self, identity: str) -> agent.Customization:
        """A copy of one record as it is now.

        Raises:
            NotFound: unknown id.
        """
        with self._changed:
            if identity in self._live:
                return _copy(self._live[identity])
        rows = self._store.rows("SELECT sealed FROM customizations WHERE id = ?", identity)
        if not rows:
            raise NotFound(
                "no such customisation", fix="list them with `sotto list`", subject=identity
            )
        return self._record(identity, rows[0][0])

    def newest(self, adapter: str) -> agent.Customization:
        """The newest record of an adapter.

        Raises:
            NotFound: there is none.
        """
        found = next((one for one in self.all() if one.adapter == adapter), None)
        if found is None:
            raise NotFound(
                f"no customisation of adapter {adapter!r} on this device",
                fix="list them with `sotto list`",
                subject=adapter,
            )
        return found

    def adapter(self, name: str) -> tuple[Pseudonyms, str]:
        """What the cloud calls the adapter `name`, or one given as "id:ID"; and the id of the
        customisation that trained it, or is to; empty where no customisation here did.

        Raises:
            NotFound: none of that name was customised here, so nobody else can know it by one.
        """
        if name.startswith(BY_ID):
            return Pseudonyms(name, name.removeprefix(BY_ID), {}), ""
        records = [record for record in self.all() if record.adapter == name]
        if not records:
            raise NotFound(
                f"no such adapter on this device: {name!r}",
                fix="see `sotto list` for those there are; one that another device trained is "
                "called id: and what `sotto list --json` there gives as its adapter_id",
                subject=name,
            )
        found = next(filter(is_usable, records), records[0])
        names = self.pseudonyms(found)
        if not names.labels:  # they left as they were written
            return names, found.id
        labels: dict[str, str] = {}
        # All of one name: the cloud may answer from a job whose end is not seen yet, and what is
        # at home may be an earlier version.
        for record in records:
            if record.adapter_id == found.adapter_id:
                labels |= self.pseudonyms(record).labels
        return Pseudonyms(name, found.adapter_id, labels), found.id

    def pseudonyms(self, record: agent.Customization) -> Pseudonyms:
        """What the cloud calls the adapter of a customisation, and its labels."""
        query = "SELECT labels FROM customizations WHERE id = ?"
        ((sealed,),) = self._store.rows(query, record.id)
        labels = {}
        if sealed is not None:
            place = b"labels" + record.id.encode()
            labels = json.loads(self._store.seal.unseal(sealed, place))
        return Pseudonyms(record.adapter, record.adapter_id, labels)

    def all(self) -> list[agent.Customization]:
        """All records, newest first."""
        rows = self._store.rows("SELECT id FROM customizations ORDER BY number DESC")
        return [self.get(identity) for (identity,) in rows]

    def unfinished(self) -> list[str]:
        """Ids of those that have not ended, oldest first."""
        rows = self._store.rows("SELECT id FROM customizations WHERE NOT finished ORDER BY number")
        return [identity for (identity,) in rows]

    def check_room(self) -> None:
        """Refuses one customisation too many (QuotaExceeded)."""
        if len(self.unfinished()) >= UNFINISHED_LIMIT:
            raise QuotaExceeded(
                f"{UNFINISHED_LIMIT} customisations are unfinished",
                fix="wait until one has ended",
                subject="customizations",
            )

    def job_request(self, identity: str) -> training.CreateJobRequest:
        """What the cloud is, or was, asked to create."""
        ((sealed,),) = self._store.rows("SELECT job FROM customizations WHERE id = ?", identity)
        plain = self._store.seal.unseal(sealed, b"job" + identity.encode())
        return training.CreateJobRequest.FromString(plain)

    def trained_with(self, identity: str) -> Setting | None:
        """How the examples of a customisation were privatised; None where it is no one's here."""
        if not identity:
            return None
        return setting_of(self.job_request(identity))

    def batches(self, identity: str, first: int) -> Iterator[training.UploadExamplesRequest]:
        """The examples from sequence number `first` on, in messages of bounded size."""
        while True:
            rows = self._store.rows(
                "SELECT sequence, sealed FROM outbox WHERE customization = ? AND sequence >= ?"
                " ORDER BY sequence LIMIT ?",
                identity,
                first,
                LARGEST_BATCH,
            )
            if not rows:
                return
            message = training.UploadExamplesRequest(first_sequence=first)
            size = 0
            for sequence, sealed in rows:
                plain = self._store.seal.unseal(sealed, outbox_place(identity, sequence))
                if message.examples and size + len(plain) > _BATCH_BYTES:
                    break
                message.examples.append(training.PrivatizedExample.FromString(plain))
                size += len(plain)
            yield message
            first += len(message.examples)

    def show(self, record: agent.Customization) -> None:
        """Takes over figures that need not survive, and wakes whoever watches."""
        with self._changed:
            if record.id not in self._ended:  # by another thread, meanwhile
                self._live[record.id] = _copy(record)
                self._changed.notify_all()

    def save(self, record: agent.Customization) -> bool:
        """Writes a record down. One that has ended needs its examples no more, nor the corrections
        among them if it succeeded, and stays as it is: False where it had ended before, and nothing
        was written."""
        ended = record.state in ENDED
        sealed = self._seal(record)
        dropped = False
        with self._store.transaction() as transaction:
            written = transaction.execute(
                "UPDATE customizations SET finished = ?, sealed = ? WHERE id = ? AND NOT finished",
                (ended, sealed, record.id),
            )
            if ended:
                transaction.execute("DELETE FROM outbox WHERE customization = ?", (record.id,))
                learnt = record.state == agent.CUSTOMIZATION_STATE_SUCCEEDED
                dropped = corrections.settle(transaction, record.id, learnt=learnt)
        if dropped:
            self._store.overwrite_if_possible()
        if not (ended or written.rowcount):
            return False
        if not ended:
            self.show(record)
            return True
        with self._changed:
            self._ended.add(record.id)
            self._live.pop(record.id, None)
            self._changed.notify_all()
        return bool(written.rowcount)

    def set_aside(self, identity: str, *, aside: bool) -> None:
        """Has a customisation that succeeded passed over, or no longer, by its name."""
        record = self.get(identity)
        record.set_aside = aside
        with self._store.transaction() as transaction:
            transaction.execute(
                "UPDATE customizations SET sealed = ? WHERE id = ?", (self._seal(record), identity)
            )

    def forget(self, identity: str) -> None:
        """Deletes a record and what waits to be sent of it; with the last one of an adapter's name
        the corrections that wait for it."""
        adapter = self.get(identity).adapter
        last = all(one.id == identity for one in self.all() if one.adapter == adapter)
        dropped = False
        with self._store.transaction() as transaction:
            transaction.execute("DELETE FROM outbox WHERE customization = ?", (identity,))
            transaction.execute("DELETE FROM customizations WHERE id = ?", (identity,))
            if last:
                dropped = corrections.forget_all(transaction, self._store.seal, adapter)
        if dropped:
            self._store.overwrite_if_possible()
        with self._changed:
            self._ended.add(identity)
            self._live.pop(identity, None)
            self._changed.notify_all()

    def insert(
        self,
        transaction: sqlite3.Connection,
        record: agent.Customization,
        request_id: str,
        job: training.CreateJobRequest,
        labels: Mapping[str, str],
    ) -> None:
        """Writes a new record, in the transaction that also fills the outbox; `labels` are the
        owner's, by the cloud's."""
        seal, place = self._store.seal, record.id.encode()
        transaction.execute(
            "INSERT INTO customizations (id, request, finished, sealed, job, labels)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                record.id,
                self._request_key(request_id),
                record.state in ENDED,
                self._seal(record),
                seal.seal(job.SerializeToString(), b"job" + place),
                seal.seal(json.dumps(labels).encode(), b"labels" + place),
            ),
        )

    def watch(self, identity: str, stopped: Callable[[], bool]) -> Iterator[agent.Customization]:
        """The record now and after every change, until it ends or `stopped` says so."""
        seen: agent.Customization | None = None
        while not stopped():
            record = self.get(identity)
            if record != seen:
                yield record
                seen = record
            if record.state in ENDED:
                return
            with self._changed:
                if self._live.get(identity, record) == record:
                    self._changed.wait(0.5)

    def wake(self) -> None:
        """Lets watchers look whether they should stop."""
        with self._changed:
            self._changed.notify_all()

    def _request_key(self, request_id: str) -> bytes:
        return self._store.seal.name(b"request", request_id.encode())

    def _seal(self, record: agent.Customization) -> bytes:
        place = b"customization" + record.id.encode()
        return self._store.seal.seal(record.SerializeToString(), place)

    def _record(self, identity: str, sealed: bytes) -> agent.Customization:
        plain = self._store.seal.unseal(sealed, b"customization" + identity.encode())
        record = agent.Customization.FromString(plain)
        record.adapter_id = record.adapter_id or record.adapter  # before there were ids
        return record


def setting_of(job: training.CreateJobRequest) -> Setting:
    """How the examples of a job were privatised."""
    return Setting(job.release.level, job.release.mechanism, job.release.policy)


def is_usable(record: agent.Customization) -> bool:
    """Whether its name may stand for what a customisation trained."""
    return record.state == agent.CUSTOMIZATION_STATE_SUCCEEDED and not record.set_aside


def outbox_place(identity: str, sequence: int) -> bytes:
    """What an example in the outbox is sealed for."""
    return f"outbox {identity} {sequence}".encode()


def _copy(record: agent.Customization) -> agent.Customization:
    copied = agent.Customization()
    copied.CopyFrom(record)
    return copied
