"""Continuations and embeddings over HTTP."""

from __future__ import annotations

import base64
import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core.http.server import CALLS_AT_ONCE
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http.endpoints import openai_server, read_key
from sottovoce.edge.tasks.predict import Embedder
from tests.support.agent import configured, opened
from tests.support.echo import EchoingCloud
from tests.support.openai_endpoint import SECONDS, Door, opened_endpoint
from tests.support.plain_denoiser import PlainDenoiser
from tests.support.stub_cloud import stub_cloud
from tests.support.waiting import until

TEXT = "Zelphira Quarnivel saw Jorvane at Little Rock"


@pytest.mark.parametrize("prompt", [TEXT, [TEXT]])
def test_a_text_is_continued(at_cloud: tuple[Door, EchoingCloud], prompt: Any) -> None:
    door, cloud = at_cloud
    body = {"prompt": prompt, "model": "default", "n": 1, "echo": False, "stop": "\n"}
    answer = door.ask("/v1/completions", body)
    (choice,) = answer.json["choices"]
    assert (choice["text"], choice["finish_reason"]) == (TEXT, "stop")
    assert answer.json["object"] == "text_completion"
    asked = cloud.asked[-1]
    assert "Zelphira" not in asked.released_text
    assert [*asked.released_stops] == ["\n"]
    assert answer.headers["x-sottovoce-policy"] == "personal"


def test_a_continuation_streams(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    answer = door.ask("/v1/completions", {"prompt": TEXT, "stream": True})
    *deltas, last = answer.events
    assert "".join(each["choices"][0]["text"] for each in deltas) == TEXT
    assert last["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": ["a", "b"]},
        {"prompt": [1, 2]},
        {"prompt": None},
        {"suffix": "x"},
        {"echo": True},
        {"best_of": 2},
        {"logprobs": 6},
        {"messages": []},
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    at_cloud: tuple[Door, EchoingCloud], fields: dict[str, Any]
) -> None:
    door, _ = at_cloud
    answer = door.ask("/v1/completions", {"prompt": TEXT} | fields)
    assert (answer.status, answer.error["param"]) == (400, next(iter(fields)))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "text-embedding-3-small"}, 404),
        ({"input": [[1, 2]]}, 400),
        ({"input": []}, 400),
        ({"input": ["x"] * 257}, 400),
        ({"dimensions": 8}, 400),
        ({"encoding_format": "hex"}, 400),
        ({"surprise": 1}, 400),
    ],
)
def test_embeddings_that_cannot_be_had_are_refused(
    at_cloud: tuple[Door, EchoingCloud], fields: dict[str, Any], status: int
) -> None:
    door, _ = at_cloud
    answer = door.ask("/v1/embeddings", {"input": TEXT, "model": "local"} | fields)
    assert answer.status == status
    assert answer.error["param"] == next(iter(fields))


def test_embeddings_of_the_device_alone_are_the_same_in_both_encodings(
    tmp_path: Path, bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with opened_endpoint(tmp_path, bundle_folder, lexicon_tagger) as door:
        asked = {"model": "local", "input": ["Zelphira at the pond", "a lamp"]}
        numbers = door.ask("/v1/embeddings", asked).json
        packed = door.ask("/v1/embeddings", asked | {"encoding_format": "base64"}).json
    assert [each["index"] for each in numbers["data"]] == [0, 1]
    assert numbers["usage"]["prompt_tokens"] > 4
    for one, other in zip(numbers["data"], packed["data"], strict=True):
        vector = np.array(one["embedding"], np.float32)
        assert abs(np.linalg.norm(vector) - 1) < 1e-5
        unpacked = np.frombuffer(base64.b64decode(other["embedding"]), "<f4")
        np.testing.assert_array_equal(unpacked, vector)


def test_a_cloud_that_does_not_answer_keeps_no_place_of_who_has_gone(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, done = threading.Semaphore(0), threading.Event()

    def silent(*_: object) -> list[float]:
        asked.release()
        done.wait(SECONDS)
        return []

    with ExitStack() as open_:
        cloud = open_.enter_context(stub_cloud(small_bundle_folder))
        open_.callback(done.set)
        monkeypatch.setattr(cloud, "embedding", silent)
        config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        device = open_.enter_context(opened(config, lexicon_tagger))
        device.embedder = Embedder(
            device.engine, device.keyring, device.ledger, device.cloud, "balanced", PlainDenoiser
        )
        endpoint = open_.enter_context(openai_server(device, "127.0.0.1:0"))
        door = Door(endpoint.address, read_key(config.agent.state))
        body = json.dumps({"input": ["the river"] * 3}).encode()
        head = (
            f"POST /v1/embeddings HTTP/1.1\r\nHost: {door.address}\r\n"
            f"Authorization: Bearer {door.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with ExitStack() as lines:
            for _ in range(CALLS_AT_ONCE):
                line = lines.enter_context(socket.create_connection(door.place, SECONDS))
                line.sendall(head.encode() + body)
                assert asked.acquire(timeout=SECONDS)
            assert door.ask("/v1/models").status == 429
        until(lambda: door.ask("/v1/models").status == 200, SECONDS / 2)
        assert not done.is_set()
