"""Customisations on the device: records, and privatised examples to be sent.

A customisation outlives its request, the daemon, and days without a network. Results are written to
disk before they are reported. Progress figures stay in memory, which spares the device's flash:
they come twice a second and are soon worthless.

While a call sends its examples, they wait in the outbox without a sequence number. One transaction
charges the ledger and numbers them all. The uploader sees only numbered examples.

An adapter called "hiv-clinic" reveals the purpose of a device. A label reveals the topic of a text,
however well the text is hidden. So names stay in the device's sealed state, and the cloud gets ids
that are keyed hashes. One name always has the same id on one device. The ids tell others nothing
else, not even that two adapters share a label.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sottovoce.core.errors import NotFound, NotReady, QuotaExceeded, SottovoceError
from sottovoce.core.privacy.policies import Setting
from sottovoce.edge.state import corrections
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import Seal
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

ENDED = (
    agent.CUSTOMIZATION_STATE_SUCCEEDED,
    agent.CUSTOMIZATION_STATE_FAILED,
    agent.CUSTOMIZATION_STATE_CANCELLED,
)
UNFINISHED_LIMIT = 20
LARGEST_BATCH = 64
_BATCH_BYTES = 512 << 10
_LABEL_BYTES = 128
"""Sealed labels have a multiple of this length, so that a row's size does not tell its label."""


BY_ID = "id:"
"""Prefix of an adapter's id where the owner has no name for the adapter."""

_ADAPTER_ID_BYTES = 16
_LABEL_ID_BYTES = 10  # enough for the at most 1,000 labels of one adapter
_ID = re.compile(r"\b[a-z2-7]+\b")


def adapter_id(seal: Seal, name: str) -> str:
    """Return 26 lowercase letters and digits for the adapter `name`."""
    return _opaque(seal.name(b"adapter", name.encode()), _ADAPTER_ID_BYTES)


def label_ids(seal: Seal, adapter: str, labels: Iterable[str]) -> dict[str, str]:
    """Return 16 lowercase letters and digits for each label of an adapter."""
    return {
        label: _opaque(seal.name(b"label", adapter.encode(), label.encode()), _LABEL_ID_BYTES)
        for label in labels
    }


@dataclass(frozen=True, slots=True)
class OpaqueIds:
    """The names of an adapter and its labels, in the cloud and for the owner.

    Args:
        adapter: the owner's name.
        adapter_id: the cloud's id.
        labels: the owner's labels by the cloud's ids. Empty where labels have no other names: the
            adapter is another device's, or a version trained it that sent labels unchanged.
        unfinished: whether no training of the adapter has ended yet, as far as is known here.
    """

    adapter: str
    adapter_id: str
    labels: Mapping[str, str]
    unfinished: bool = False

    def label(self, sent: str) -> str:
        """Return the owner's name of a label in the cloud's answer."""
        if not self.labels:
            return sent
        if sent not in self.labels:
            raise SottovoceError(
                "the cloud answered with a label that this adapter does not have",
                fix="customise it again",
            )
        return self.labels[sent]

    def reveal(self, text: str) -> str:
        """Return the cloud's text with the owner's names in place of ids."""
        names = {self.adapter_id: self.adapter, **self.labels}
        return _ID.sub(lambda found: names.get(found[0], found[0]), text)

    def revealed(self, error: SottovoceError) -> SottovoceError:
        """Return the error with the owner's names in place of ids.

        Where the cloud knows no adapter because its training goes on, the error says so.
        """
        if self.unfinished and isinstance(error, NotFound):
            return NotReady(
                f"adapter {self.adapter!r} is not trained yet",
                fix="wait for its training: `sotto logs NAME` follows it",
                subject=self.adapter,
            )
        return type(error)(
            self.reveal(error.problem),
            fix=self.reveal(error.fix),
            subject=self.reveal(error.subject),
            metadata=error.metadata,
        )


def _opaque(digest: bytes, size: int) -> str:
    return base64.b32encode(digest[:size]).decode().rstrip("=").lower()


@dataclass(frozen=True, slots=True)
class Staged:
    """A privatised example of a call that still sends examples.

    Attributes:
        example: the example, with its own label.
        digest: identifies the release in the ledger.
        charge: the cost of the release.
        labelled: keyed hash of the words and the label; empty for a public text.
    """

    example: training.PrivatizedExample
    digest: bytes
    charge: float
    labelled: bytes


class Outbox:
    """Records by id, sealed in `store`; the progress of running jobs is kept in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[str, agent.Customization] = {}
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def find_request(self, request_id: str) -> agent.Customization | None:
        """Return the customisation that an earlier call with this id made, or None."""
        rows = self._store.rows(
            "SELECT id FROM customizations WHERE request = ?", self._request_key(request_id)
        )
        return self.get(rows[0][0]) if rows else None

    def get(self, identity: str) -> agent.Customization:
        """Return a copy of one record as it is now."""
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
        """Return the newest record of an adapter."""
        found = next((one for one in self.all() if one.adapter == adapter), None)
        if found is None:
            raise NotFound(
                f"no customisation of adapter {adapter!r} on this device",
                fix="list them with `sotto list`",
                subject=adapter,
            )
        return found

    def adapter(self, name: str) -> tuple[OpaqueIds, str]:
        """Return the cloud's names for an adapter, and the id of its customisation.

        Args:
            name: the owner's name, or "id:ID".

        Returns:
            The names, and the id of the customisation that trained the adapter or will train it.
            The id is empty if this device did not customise the adapter.

        Raises:
            NotFound: this device customised no adapter of this name; names mean nothing elsewhere.
        """
        if name.startswith(BY_ID):
            return OpaqueIds(name, name.removeprefix(BY_ID), {}), ""
        records = [record for record in self.all() if record.adapter == name]
        if not records:
            raise NotFound(
                f"no such adapter on this device: {name!r}",
                fix="`sotto list` shows those there are; `sotto join` takes one of another device",
                subject=name,
            )
        found = next(filter(is_usable, records), records[0])
        names = replace(self.pseudonyms(found), unfinished=found.state not in ENDED)
        if not names.labels:  # the labels were sent unchanged
            return names, found.id
        labels: dict[str, str] = {}
        # Join the labels of all records: the cloud may answer from a job whose end is not seen yet,
        # and this device may hold an earlier version.
        for record in records:
            if record.adapter_id == found.adapter_id:
                labels |= self.pseudonyms(record).labels
        return replace(names, labels=labels), found.id

    def pseudonyms(self, record: agent.Customization) -> OpaqueIds:
        """Return the cloud's names for a customisation's adapter and its labels."""
        query = "SELECT labels FROM customizations WHERE id = ?"
        ((sealed,),) = self._store.rows(query, record.id)
        labels = {}
        if sealed is not None:
            place = b"labels" + record.id.encode()
            labels = json.loads(self._store.seal.unseal(sealed, place))
        return OpaqueIds(record.adapter, record.adapter_id, labels)

    def all(self) -> list[agent.Customization]:
        """Return all records, the newest first."""
        rows = self._store.rows("SELECT id FROM customizations ORDER BY number DESC")
        return [self.get(identity) for (identity,) in rows]

    def unfinished(self) -> list[str]:
        """Return the ids of the records that have not ended, the oldest first."""
        rows = self._store.rows("SELECT id FROM customizations WHERE NOT finished ORDER BY number")
        return [identity for (identity,) in rows]

    def check_room(self) -> None:
        """Raise QuotaExceeded if too many customisations are unfinished."""
        if len(self.unfinished()) >= UNFINISHED_LIMIT:
            raise QuotaExceeded(
                f"{UNFINISHED_LIMIT} customisations are unfinished",
                fix="wait until one has ended",
                subject="customizations",
            )

    def job_request(self, identity: str) -> training.CreateJobRequest:
        """Return the request that creates the customisation's job in the cloud."""
        ((sealed,),) = self._store.rows("SELECT job FROM customizations WHERE id = ?", identity)
        plain = self._store.seal.unseal(sealed, b"job" + identity.encode())
        return training.CreateJobRequest.FromString(plain)

    def trained_with(self, identity: str) -> Setting | None:
        """Return how a customisation's examples were privatised; None for an empty id."""
        if not identity:
            return None
        return setting_of(self.job_request(identity))

    def batches(self, identity: str, first: int) -> Iterator[training.UploadExamplesRequest]:
        """Yield the examples from number `first` on, in messages of bounded size."""
        while True:
            rows = self._store.rows(
                "SELECT example, label, sealed FROM outbox"
                " WHERE customization = ? AND sequence >= ? ORDER BY sequence LIMIT ?",
                identity,
                first,
                LARGEST_BATCH,
            )
            if not rows:
                return
            message = training.UploadExamplesRequest(first_sequence=first)
            size = 0
            for drawn, label, sealed in rows:
                plain = self._store.seal.unseal(sealed, _place("example", identity, drawn))
                if message.examples and size + len(plain) > _BATCH_BYTES:
                    break
                example = training.PrivatizedExample.FromString(plain)
                example.label = self._unsealed(label, _place("label", identity, drawn))
                message.examples.append(example)
                size += len(plain)
            yield message
            first += len(message.examples)

    def show(self, record: agent.Customization) -> None:
        """Store progress figures in memory, and wake the watchers."""
        with self._changed:
            if record.id not in self._ended:  # another thread may have ended it meanwhile
                self._live[record.id] = _copy(record)
                self._changed.notify_all()

    def save(self, record: agent.Customization) -> bool:
        """Write a record; return False if it had ended before.

        A record that has ended does not change. Its examples are deleted, and so are its
        corrections if it succeeded.
        """
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
        """Set whether the adapter's name skips this successful customisation."""
        record = self.get(identity)
        record.set_aside = aside
        with self._store.transaction() as transaction:
            transaction.execute(
                "UPDATE customizations SET sealed = ? WHERE id = ?", (self._seal(record), identity)
            )

    def forget(self, identity: str) -> None:
        """Delete a record and its unsent examples.

        With the last record of an adapter's name, its waiting corrections are deleted too.
        """
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

    def stage(self, identity: str, examples: Iterable[Staged]) -> None:
        """Write examples of a call that still sends others.

        Each gets a random id. The text is sealed here, once. The label is kept apart, because the
        label that leaves is known only when all labels are.
        """
        rows = []
        for each in examples:
            drawn, example = secrets.token_bytes(16), training.PrivatizedExample()
            example.CopyFrom(each.example)
            example.ClearField("label")
            example.example_id = drawn.hex()
            label = self._sealed(each.example.label, _place("own label", identity, drawn))
            place = _place("example", identity, drawn)
            sealed = self._store.seal.seal(example.SerializeToString(), place)
            rows.append(
                (identity, drawn, label, sealed, each.digest, each.charge, each.labelled),
            )
        with self._store.transaction() as transaction:
            transaction.executemany("INSERT INTO outbox VALUES (?, ?, NULL, ?, ?, ?, ?, ?)", rows)

    def labelled(self, transaction: sqlite3.Connection, identity: str) -> Iterator[bytes]:
        """Yield the keyed hashes of the staged examples that have a label."""
        found = transaction.execute(
            "SELECT labelled FROM outbox WHERE customization = ? AND labelled != x''", (identity,)
        )
        return (labelled for (labelled,) in found)

    def make_ready(
        self,
        transaction: sqlite3.Connection,
        identity: str,
        label_of: Callable[[str, bytes], str],
    ) -> Iterator[tuple[bytes, float]]:
        """Make all staged examples ready to be sent, in the transaction that charges for them.

        They are numbered in the order of their random ids.

        Args:
            label_of: returns the label that leaves, from the example's own label and its keyed
                hash.

        Yields:
            The digest and the charge of each example. Exhaust this iterator.
        """
        sequence, last = 0, b""
        while rows := transaction.execute(
            "SELECT example, label, digest, charge, labelled FROM outbox"
            " WHERE customization = ? AND example > ? ORDER BY example LIMIT ?",
            (identity, last, LARGEST_BATCH),
        ).fetchall():
            for drawn, label, digest, charge, labelled in rows:
                own = self._unsealed(label, _place("own label", identity, drawn))
                leaves = self._sealed(label_of(own, labelled), _place("label", identity, drawn))
                transaction.execute(
                    "UPDATE outbox SET sequence = ?, label = ?, digest = x'', charge = 0,"
                    " labelled = x'' WHERE customization = ? AND example = ?",
                    (sequence, leaves, identity, drawn),
                )
                yield digest, charge
                sequence, last = sequence + 1, drawn

    def unstage(self, identity: str) -> None:
        """Delete the examples that an interrupted call staged."""
        staged = "FROM outbox WHERE customization = ? AND sequence IS NULL"
        if self._store.rows(f"SELECT 1 {staged} LIMIT 1", identity):
            with self._store.transaction() as transaction:
                transaction.execute(f"DELETE {staged}", (identity,))

    def unstage_all(self) -> None:
        """Delete the examples that interrupted calls staged; use this only while no call runs."""
        with self._store.transaction() as transaction:
            transaction.execute("DELETE FROM outbox WHERE sequence IS NULL")

    def insert(
        self,
        transaction: sqlite3.Connection,
        record: agent.Customization,
        request_id: str,
        job: training.CreateJobRequest,
        labels: Mapping[str, str],
    ) -> None:
        """Write a new record, in the transaction that makes its examples ready.

        Args:
            labels: the owner's labels by the cloud's ids.
        """
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
        """Yield the record now and after every change, until its end or `stopped`."""
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
        """Wake the watchers, so that they check whether to stop."""
        with self._changed:
            self._changed.notify_all()

    def _request_key(self, request_id: str) -> bytes:
        return self._store.seal.name(b"request", request_id.encode())

    def _sealed(self, label: str, place: bytes) -> bytes:
        ended = label.encode() + b"\1"
        return self._store.seal.seal(ended + bytes(-len(ended) % _LABEL_BYTES), place)

    def _unsealed(self, sealed: bytes, place: bytes) -> str:
        return self._store.seal.unseal(sealed, place).rstrip(b"\0")[:-1].decode()

    def _seal(self, record: agent.Customization) -> bytes:
        place = b"customization" + record.id.encode()
        return self._store.seal.seal(record.SerializeToString(), place)

    def _record(self, identity: str, sealed: bytes) -> agent.Customization:
        plain = self._store.seal.unseal(sealed, b"customization" + identity.encode())
        record = agent.Customization.FromString(plain)
        record.adapter_id = record.adapter_id or record.adapter  # written by a version without ids
        return record


def setting_of(job: training.CreateJobRequest) -> Setting:
    """Return how the examples of a job were privatised."""
    return Setting(job.release.level, job.release.mechanism, job.release.policy)


def is_usable(record: agent.Customization) -> bool:
    """Return whether the adapter's name may stand for this customisation's result."""
    return record.state == agent.CUSTOMIZATION_STATE_SUCCEEDED and not record.set_aside


def standing(record: agent.Customization) -> str:
    """Return the word for a customisation's state, the same in tables, JSON and pages.

    It is uploading, training, ready, rolled back, failed or cancelled.
    """
    if is_usable(record):
        return "ready"
    if record.set_aside:
        return "rolled back"
    name = agent.CustomizationState.Name(record.state)
    return name.removeprefix("CUSTOMIZATION_STATE_").lower()


def _place(what: str, identity: str, drawn: bytes) -> bytes:
    """Return the place for which a part of an example is sealed."""
    return f"{what} {identity} {drawn.hex()}".encode()


def _copy(record: agent.Customization) -> agent.Customization:
    copied = agent.Customization()
    copied.CopyFrom(record)
    return copied
