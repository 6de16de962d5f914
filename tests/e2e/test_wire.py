"""The bytes between a real agent and a real cloud tell nothing beside the released texts."""

from __future__ import annotations

import json
import math
import re
import socket
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError, Message

from bench.live.testbed import Agent, Cloud
from bench.live.wiretap import Wiretap
from sottovoce.core.rpc.streams import padded_size
from sottovoce.v1 import inference_pb2, training_pb2

from .conftest import Light, at_home

ADAPTER = "hiv-clinic-zorvekquil"
LABELS = ("positive-thrumabplex", "negative-dwinogfahl")
TABLE = "patients-ryskubixo.tsv"
SECRETS = (ADAPTER, *LABELS, TABLE, "zorvekquil", "thrumabplex", "dwinogfahl", "ryskubixo")
EXAMPLES = 120


@dataclass(frozen=True)
class Told:
    """A customisation and predictions with it, and all that was on the wire and is at rest."""

    headers: list[tuple[str, str]]
    sent: list[bytes]
    received: list[bytes]
    raw: bytes
    answers: list[dict[str, Any]]
    status: dict[str, Any]
    agent_files: bytes
    cloud_files: bytes


def _text(number: int) -> str:
    """Each longer than the one before, and known again by its twelve digits."""
    return " ".join(["The river was cold in the garden", *["again"] * number, f"{number:012}"])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, light: Light) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("wire")
    with pytest.MonkeyPatch.context() as patch:
        at_home(folder, patch)
        cloud = light.cloud(folder)
        cloud.start()
        try:
            with Wiretap(cloud.address) as tap:
                yield _conversation(folder, cloud, tap)
        finally:
            cloud.kill()


def _conversation(folder: Path, cloud: Cloud, tap: Wiretap) -> Told:
    agent = Agent.at(folder, cloud=tap.address, tenant="t", token=cloud.enroll("t"))
    agent.run("pull", tap.address)
    agent.start()
    table, asked = folder / TABLE, folder / "ask-ryskubixo.txt"
    rows = [f"{_text(n)}\t{LABELS[n % 2]}" for n in range(EXAMPLES)]
    table.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked.write_text("\n".join(map(_text, range(EXAMPLES))) + "\n", encoding="utf-8")
    try:
        agent.run(
            "customize",
            ADAPTER,
            "--input",
            str(table),
            "--method",
            "head",
            "--epochs",
            "1",
            "--json",
        )
        answers = agent.run("predict", ADAPTER, "--input", str(asked), "--json").splitlines()
        status = json.loads(agent.run("status", "--json"))
        agent.stop()
    finally:
        agent.kill()
    requests = [connection.requests() for connection in tap.connections]
    replies = [connection.answers() for connection in tap.connections]
    return Told(
        headers=[field for headers, _ in requests for field in headers],
        sent=[message for _, messages in requests for message in messages],
        received=[message for _, messages in replies for message in messages],
        raw=b"".join(bytes(c.sent) + bytes(c.received) for c in tap.connections),
        answers=[json.loads(line) for line in answers],
        status=status,
        agent_files=_at_rest(folder / "agent", folder / "agent.log"),
        cloud_files=_at_rest(cloud.state, folder / "cloud.log"),
    )


def _at_rest(*roots: Path) -> bytes:
    """Names and contents of all files."""
    held = [
        f"{file}\n".encode() + (file.read_bytes() if file.is_file() else b"")
        for root in roots
        for file in (root, *root.rglob("*"))
        if not file.is_socket()
    ]
    return b"\n".join(held)


def _of(kind: type[Message], messages: list[bytes], field: str) -> list[Any]:
    """Those messages that are of this kind: they survive a round trip, and have the field."""
    found = []
    for message in messages:
        parsed = kind()
        try:
            parsed.ParseFromString(message)
        except DecodeError:
            continue
        if getattr(parsed, field) and parsed.SerializeToString(deterministic=True) == message:
            found.append(parsed)
    return found


def _examples(told: Told) -> list[training_pb2.PrivatizedExample]:
    uploads = _of(training_pb2.UploadExamplesRequest, told.sent, "examples")
    return [example for upload in uploads for example in upload.examples]


def _leaks(recorded: bytes) -> list[str]:
    recorded = recorded.lower()
    return [secret for secret in SECRETS if secret.encode() in recorded]


def test_no_name_of_the_owners_leaves_or_is_kept_in_the_clear(told: Told) -> None:
    decoded = b"\n".join(
        [*(f"{k}: {v}".encode() for k, v in told.headers), *told.sent, *told.received]
    )
    # The record is the right one, and a name in it would be found ...
    released = [answer["released_text"] for answer in told.answers]
    assert len(released) == EXAMPLES
    assert all(text.encode() in decoded for text in released)
    assert _leaks(decoded + b" HIV-clinic-zorvekquil ") == [ADAPTER, "zorvekquil"]
    # ... but there is none: on the wire, in the cloud's files, names of files and log, or here.
    assert _leaks(decoded) == []
    assert _leaks(told.raw) == []
    assert _leaks(told.cloud_files) == []
    assert _leaks(told.agent_files) == []


def test_the_owner_reads_names_and_the_cloud_ids(told: Told) -> None:
    assert {answer["label"] for answer in told.answers} <= set(LABELS)
    assert {s["label"] for answer in told.answers for s in answer["scores"]} == set(LABELS)
    (record,) = told.status["customizations"]
    assert record["adapter"] == ADAPTER
    assert record["adapter_id"].encode() in told.cloud_files
    assert told.status["ledger"]["labels_as_they_are"] == EXAMPLES
    assert len({example.label for example in _examples(told)}) == 2


def test_places_in_the_upload_tell_nothing(told: Told) -> None:
    """The correlation of places in the table and in the upload is within 4.9 standard deviations,
    1/sqrt(n - 1) each (two-sided, alpha = 1e-6); in the table's order it would be 1."""
    table = {answer["released_text"]: place for place, answer in enumerate(told.answers)}
    order = [table[example.released_text] for example in _examples(told)]
    assert sorted(order) == list(range(EXAMPLES))
    found = statistics.correlation(order, range(EXAMPLES))
    assert abs(found) < 4.9 / math.sqrt(EXAMPLES - 1)


def test_sizes_on_the_wire_are_few(told: Told) -> None:
    (record,) = told.status["customizations"]
    asked = [
        one
        for one in _of(inference_pb2.InferenceServicePredictRequest, told.sent, "released_text")
        if one.adapter == record["adapter_id"]
    ]
    assert len(asked) == EXAMPLES
    assert len({len(one.released_text) for one in asked}) > EXAMPLES / 2
    sizes = {one.ByteSize() for one in asked}
    assert sizes <= {512, 1024, 1536, 2048}  # as chance has it: a long release is rare
    uploads = _of(training_pb2.UploadExamplesRequest, told.sent, "examples")
    assert all(one.ByteSize() == padded_size(one.ByteSize()) for one in uploads)
    answered = [
        one
        for one in _of(inference_pb2.InferenceServicePredictResponse, told.received, "scores")
        if len(one.scores) == len(LABELS)
    ]
    assert len(answered) == EXAMPLES
    assert len({one.ByteSize() for one in answered}) == 1


def test_every_call_says_the_same_of_the_device(told: Told) -> None:
    """One user agent, gRPC's own: no host, user or version of anything else."""
    said: dict[str, set[str]] = {}
    for name, value in told.headers:
        said.setdefault(name, set()).add(value)
    (agent,) = said["user-agent"]
    version = re.escape(grpc.__version__)
    assert re.fullmatch(rf"grpc-python/{version} grpc-c/[0-9.]+ \(linux; chttp2\)", agent)
    assert said.keys() <= {
        *(":method", ":scheme", ":path", ":authority", "te", "content-type", "user-agent"),
        *("grpc-accept-encoding", "grpc-timeout", "grpc-previous-rpc-attempts"),
        *("sottovoce-tenant", "authorization"),
    }
    assert all(len(said[name]) == 1 for name in ("te", "grpc-accept-encoding", "authorization"))
    del said["authorization"]  # its random letters may spell a short name
    assert not any(socket.gethostname() in value for values in said.values() for value in values)
