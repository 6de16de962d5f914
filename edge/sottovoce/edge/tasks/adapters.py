"""Cancel customisations, roll adapters back and delete them.

A change takes effect on this device at once, even where the cloud does not answer. A cancelled
customisation sends nothing more. An error reports each change that did not reach the cloud.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, SottovoceError
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import LONGEST_LABEL, MOST_LABELS, NAME
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Accounts
from sottovoce.edge.state.outbox import ENDED, Outbox, is_usable
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

_SUCCEEDED = agent.CUSTOMIZATION_STATE_SUCCEEDED


@dataclass(eq=False)
class Adapters:
    """Changes customisations and adapters, on this device and in the cloud.

    Args:
        fetched: folder of the adapters that were fetched.
    """

    cloud: Cloud
    outbox: Outbox
    accounts: Accounts
    fetched: Path

    def cancel(self, request: adapters.CancelCustomizationRequest) -> agent.Customization:
        """Cancel a customisation, on this device first.

        For a customisation that was cancelled before, the cloud is asked again.

        Raises:
            NotFound: there is no such customisation.
            NotReady: it has already ended in another way.
            Unavailable: it is cancelled here, and the cloud did not hear of it.
        """
        record = self.outbox.get(request.id) if request.id else self.outbox.newest(request.adapter)
        cancelled = agent.CUSTOMIZATION_STATE_CANCELLED
        if record.state in ENDED and record.state != cancelled:
            raise NotReady(
                f"the customisation of {record.adapter!r} has ended",
                fix=f"`sotto rm {record.adapter}` deletes what it trained",
                subject=record.adapter,
            )
        record.state, record.message = cancelled, ""
        self.outbox.save(record)
        if record.job_id:
            self._told(record, lambda: self.cloud.cancel_job(record.job_id))
        return self.outbox.get(record.id)

    def roll_back(self, request: adapters.RollBackAdapterRequest) -> agent.Customization:
        """Point a name to an earlier version, or to a later one that was rolled back.

        Raises:
            NotFound: the adapter or version exists neither here nor in the cloud.
            NotReady: there is no version before the present one.
            Unavailable: the cloud does not answer; the name keeps its version.
        """
        versions = [one for one in self._named(request.adapter) if one.state == _SUCCEEDED]
        wanted = _version(versions, request)
        if not wanted.job_id:
            raise _not_ours(wanted)
        self.cloud.reinstate_adapter(wanted.job_id)
        newer = True
        for one in versions:
            newer = newer and one.id != wanted.id
            if one.set_aside != newer:
                self.outbox.set_aside(one.id, aside=newer)
        return self.outbox.get(wanted.id)

    def delete(self, request: adapters.DeleteAdapterRequest) -> int:
        """Delete all versions of an adapter, the cloud's first, and return their number.

        Raises:
            NotFound: this device has no such adapter.
            Unavailable: the cloud could not be reached for a version, and the deletion was not
                forced. That version and those after it are kept.
        """
        try:
            records = self._named(request.adapter)
            for record in records:
                self._delete(record, force=request.force)
            return len(records)
        finally:  # also if an earlier call was cut off
            if all(record.adapter != request.adapter for record in self.outbox.all()):
                self.accounts.forget(request.adapter)

    def _delete(self, record: agent.Customization, *, force: bool) -> None:
        if record.state not in ENDED:
            record.state = agent.CUSTOMIZATION_STATE_CANCELLED
            self.outbox.save(record)
        if record.job_id:
            self._forgotten(record, force=force)
        # Before the record, because only the record leads to the folder.
        AdapterFolder(self.fetched, record.adapter_id).remove()
        self.outbox.forget(record.id)

    def _named(self, adapter: str) -> list[agent.Customization]:
        self.outbox.newest(adapter)  # raises if there is none
        return [one for one in self.outbox.all() if one.adapter == adapter]

    def _forgotten(self, record: agent.Customization, *, force: bool) -> None:
        try:
            self._told(record, lambda: self.cloud.delete_job(record.job_id))
        except NotFound:
            return  # deleted by the cloud before
        except SottovoceError:
            if not force:
                raise

    def _told(self, record: agent.Customization, tell: Callable[[], object]) -> None:
        names = self.outbox.pseudonyms(record)
        try:
            tell()
        except SottovoceError as error:
            raise names.revealed(error) from error


def _not_ours(wanted: agent.Customization) -> NotReady:
    name = wanted.adapter
    fix = f"`sotto fetch {name} --roll-back` goes back on this device"
    if wanted.local:
        fix += f" from one that was learnt here; `sotto learn {name} --replace` learns anew"
    return NotReady(
        f"the cloud did not train that version of {name!r} for this device", fix=fix, subject=name
    )


def _version(
    versions: list[agent.Customization], request: adapters.RollBackAdapterRequest
) -> agent.Customization:
    if request.id:
        found = [one for one in versions if one.id.startswith(request.id)]
        if len(found) == 1:
            return found[0]
        raise NotFound(
            f"{len(found)} versions of {request.adapter!r} begin with that id",
            fix=f"see `sotto show {request.adapter}`",
            subject=request.adapter,
        )
    usable = [one for one in versions if is_usable(one)]
    if len(usable) > 1:
        return usable[1]
    raise NotReady(
        f"there is no version of {request.adapter!r} before the present one",
        fix=f"see `sotto show {request.adapter}`; a later one is named by its id",
        subject=request.adapter,
    )


_UNTRAINED = (agent.CUSTOMIZATION_STATE_FAILED, agent.CUSTOMIZATION_STATE_CANCELLED)


def check_name(name: str) -> None:
    """Refuse an invalid adapter name (InvalidInput)."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            "the adapter's name is not usable",
            fix="take 1 to 64 lower-case letters, digits, '-' or '_', the first no '-' or '_'",
            subject="adapter",
        )


def check_free(outbox: Outbox, name: str, *, fix: str) -> None:
    """Refuse a name in use (NotReady); ``fix`` names another way."""
    if any(one.adapter == name and one.state not in _UNTRAINED for one in outbox.all()):
        raise NotReady(f"there is an adapter {name!r} already", fix=fix, subject="adapter")


def trained_by_cloud(outbox: Outbox, name: str) -> agent.Customization:
    """Return the record of the cloud's latest training under a name.

    Raises:
        NotFound: no adapter of that name was customised here.
        NotReady: the cloud has not trained it.
    """
    _, trained = outbox.adapter(name)
    record = outbox.get(trained) if trained else None
    if record is None or not is_usable(record) or record.local:
        raise NotReady(
            f"the cloud has not trained the adapter {name!r}",
            fix="wait until it has, or have it trained anew with `sotto customize`",
            subject="adapter",
        )
    return record


FORMAT: Final = "sottovoce.shared-adapter.v1"

LARGEST: Final = 1 << 20
"""Largest size of the shared file, in bytes."""


def share(outbox: Outbox, name: str) -> bytes:
    """Return what other devices need to use the adapter ``name``."""
    record = trained_by_cloud(outbox, name)
    job = outbox.job_request(record.id)
    facts = {
        "format": FORMAT,
        "adapter": name,
        "adapter_id": record.adapter_id,
        "labels": dict(outbox.pseudonyms(record).labels),
        "training": json_format.MessageToDict(job.training),
        "release": json_format.MessageToDict(job.release),
    }
    return (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode()


def join(store: Store, outbox: Outbox, data: bytes, name: str = "") -> agent.Customization:
    """Add a shared adapter to this device and return its record.

    Args:
        data: the result of `share` on the other device.
        name: the adapter's name here; by default its name there.

    Raises:
        InvalidInput: the data is something else.
        NotReady: the name is in use here, or the adapter is here under another name.
    """
    names, labels, job = _read(data)
    name = name or names["adapter"]
    check_name(name)
    # Two names of one adapter would share a folder; removing one would remove both.
    here = next((o for o in outbox.all() if o.adapter_id == names["adapter_id"]), None)
    if here is not None:
        raise NotReady(
            f"this adapter is here already, as {here.adapter!r}",
            fix="use it by that name, or remove that one with `sotto rm` first",
            subject="adapter",
        )
    check_free(
        outbox, name, fix="take another name with --name, or remove that one with `sotto rm`"
    )
    record = agent.Customization(
        id=secrets.token_hex(16),
        adapter=name,
        state=agent.CUSTOMIZATION_STATE_SUCCEEDED,
        adapter_id=names["adapter_id"],
        privacy=agent.PrivacyOptions(
            level=job.release.level, mechanism=job.release.mechanism, policy=job.release.policy
        ),
        method=job.training.method,
        task=job.training.task,
        message="joined",
    )
    record.create_time.GetCurrentTime()
    job.request_id, job.adapter = record.id, record.adapter_id
    with store.transaction() as transaction:
        outbox.insert(transaction, record, record.id, job, labels)
    return record


def _read(data: bytes) -> tuple[dict[str, str], dict[str, str], training.CreateJobRequest]:
    try:
        if len(data) > LARGEST:
            raise ValueError("too large")
        facts: dict[str, Any] = json.loads(data)
        if facts["format"] != FORMAT:
            raise ValueError("another format")
        names = {key: facts[key] for key in ("adapter", "adapter_id")}
        labels = facts["labels"]
        if not all(isinstance(one, str) and NAME.fullmatch(one) for one in names.values()):
            raise ValueError("no names")
        if not isinstance(labels, dict) or not all(map(_is_label, labels.values())):
            raise ValueError("no labels")
        if len(labels) > MOST_LABELS or len(set(labels.values())) != len(labels):
            raise ValueError("labels")
        job = training.CreateJobRequest()
        json_format.ParseDict(facts["training"], job.training)
        json_format.ParseDict(facts["release"], job.release)
        training_settings.check(job.training)
        if not job.release.mechanism:
            raise ValueError("no mechanism")
    except (
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
        InvalidInput,
        json_format.ParseError,
    ) as error:
        raise _unreadable() from error
    return names, labels, job


def _is_label(found: object) -> bool:
    return isinstance(found, str) and 0 < len(found) <= LONGEST_LABEL


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "that is not what `sotto share` writes, or its names cannot be used",
        fix="write it again with `sotto share NAME` on the other device",
        subject="input",
    )
