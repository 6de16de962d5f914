"""Share an adapter between devices of one owner.

The cloud's names of an adapter and its labels are derived from a device's secret. So no other
device could find the adapter or read its answers. The first device writes a file with the names on
both sides and the examples' privacy settings. The other devices read it. It holds no secret, but it
holds the labels. So it goes from device to device, and never through the cloud.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Final

from google.protobuf import json_format

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import LONGEST_LABEL, MOST_LABELS, NAME
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.naming import check_free, check_name, trained_by_cloud
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["LARGEST", "join", "share"]

FORMAT: Final = "sottovoce.shared-adapter.v1"

LARGEST: Final = 1 << 20
"""Largest size of the shared file, in bytes."""


def share(outbox: Outbox, name: str) -> bytes:
    """Return what other devices need to use the adapter ``name``.

    Raises:
        NotFound, NotReady: see `trained_by_cloud`.
    """
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
        store, outbox: of this device.
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
