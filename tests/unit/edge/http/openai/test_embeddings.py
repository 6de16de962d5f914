"""Embeddings over HTTP: the endpoint does not wait for a departed client."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from sottovoce.core.http.server import CALLS_AT_ONCE
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.http.endpoints import openai_server, read_key
from sottovoce.edge.tasks.predict import Embedder
from tests.support.agent import configured, opened
from tests.support.openai_endpoint import SECONDS, Door
from tests.support.plain_denoiser import PlainDenoiser
from tests.support.stub_cloud import stub_cloud
from tests.support.waiting import until


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
