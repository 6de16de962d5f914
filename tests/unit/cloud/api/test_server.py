"""The whole server: started as operators do, killed as machines do."""

from __future__ import annotations

import contextlib
import gc
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import torch
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sottovoce.cloud.api import listener as running_module
from sottovoce.cloud.api import server
from sottovoce.cloud.api import server as server_module
from sottovoce.cloud.api.server import Server
from sottovoce.cloud.config import STORE_VARIABLE, Settings
from sottovoce.core.errors import BundleMismatch, ConfigError, Unavailable
from sottovoce.v1 import bundles_pb2, inference_pb2
from tests.support.backbones import tiny_bert
from tests.support.caller import Caller
from tests.support.certificates import Certificate
from tests.support.cloud import cloud
from tests.support.examples import examples
from tests.support.processes import environment
from tests.support.waiting import until


@contextlib.contextmanager
def process(
    folders: tuple[Path, Path], state: Path, before: str = ""
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``sotto-cloud serve`` on a free port, and its address; ``before`` is code to run first."""
    code = f"{before}\nfrom sottovoce.cloud.cli import main; main()"
    command = [sys.executable, "-c", code, "serve"]
    options = ["--listen", "127.0.0.1:0", "--state", state, "--bundle", folders[1]]
    started = subprocess.Popen(
        [*command, *options, "--backbone", folders[0], "--training-threads", "1", "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    try:
        ready = json.loads(started.stdout.readline())
        assert ready["ready"] is True
        yield started, ready["address"]
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def test_health_and_reflection_answer_without_a_tenant(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = Settings(tmp_path, (folders[1],), "127.0.0.1:0", str(folders[0]))
    with cloud(settings) as running, grpc.insecure_channel(running.server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "sottovoce.v1.TrainingService", "sottovoce.v1.InferenceService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (listed,) = stub.ServerReflectionInfo(iter([request]))
        names = {service.name for service in listed.list_services_response.service}
        assert {
            f"sottovoce.v1.{n}Service"
            for n in ("Bundles", "Enrollment", "Training", "Inference", "Generation")
        } <= names


def test_a_worker_that_dies_at_once_is_started_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[tuple[object, str]] = []
    waits: list[float] = []

    class Dead:
        pid = 0

        def __init__(self, command: object, env: dict[str, str]) -> None:
            starts.append((command, env[STORE_VARIABLE]))

        def poll(self) -> int:
            return 1

        def terminate(self) -> None: ...

        def wait(self, _: float | None = None) -> int:
            return 1

    class Short(threading.Event):
        """Says how long it was waited for, and does not wait so long."""

        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:
                return super().wait()
            waits.append(timeout)
            return super().wait(0.001)

    monkeypatch.setattr(server.subprocess, "Popen", Dead)
    monkeypatch.setattr(server.threading, "Event", Short)
    settings = Settings(tmp_path, (tmp_path,), store="postgresql://u:secret@h/d")
    process = server.WorkerProcess(settings, 0)
    until(lambda: len(starts) > 12)
    process.stop()
    for command, store in starts:
        assert store == settings.store
        assert "secret" not in str(command), "all users of a machine can read it"
    look, longest = server.RESTART_SECONDS, server.LONGEST_PAUSE
    pauses = [min(look * 2**times, longest) for times in range(1, 12)]
    assert waits[:22] == [wait for pause in pauses for wait in (look, pause)]
    assert longest in pauses


def test_what_starting_made_is_not_looked_through_for_garbage(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def __init__(self, *_: object) -> None: ...

        def set(self) -> None: ...

        def wait(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(server_module, "WorkerProcess", Nothing)
    monkeypatch.setattr(running_module, "Ending", Nothing)
    settings = Settings(tmp_path, (folders[1],), "127.0.0.1:0", str(folders[0]))
    found: list[int] = []
    try:
        server_module.serve(settings, lambda _: found.append(gc.get_freeze_count()), 0)
    finally:
        gc.unfreeze()
    assert found[0] > 100_000


def test_a_server_may_leave_training_to_others(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []

    class Nothing:
        def __init__(self, *given: object) -> None:
            started.extend(given)

        def set(self) -> None: ...

        def wait(self) -> None: ...

    monkeypatch.setattr(server_module, "WorkerProcess", Nothing)
    monkeypatch.setattr(running_module, "Ending", Nothing)
    settings = Settings(
        tmp_path, (folders[1],), "127.0.0.1:0", str(folders[0]), threads=1, trainer=False
    )
    try:
        server_module.serve(settings, lambda running: started.append(running.address), 0)
    finally:
        gc.unfreeze()
    assert len(started) == 1, "and no worker"


def test_a_stopping_server_finishes_what_it_has_begun(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = Settings(tmp_path, (folders[1],), "127.0.0.1:0", str(folders[0]))
    with cloud(settings) as running, running.caller() as acme:
        acme.submit(running.bundle_id, examples(24), training={"epochs": 1})
        running.work()
        request = inference_pb2.InferenceServicePredictRequest(
            adapter="topics", bundle_id=running.bundle_id, released_text="tree leaf"
        )
        answered: list[int] = []

        def ask() -> Iterator[inference_pb2.InferenceServicePredictStreamRequest]:
            for _ in range(20):
                yield inference_pb2.InferenceServicePredictStreamRequest(request=request)
                time.sleep(0.02)

        stream = acme.inference.PredictStream(ask(), metadata=acme.metadata)
        answered.append(len(next(stream).response.scores))
        stopping = threading.Thread(target=running.server.listener.server.stop(30).wait)
        stopping.start()
        answered += [len(answer.response.scores) for answer in stream]
        stopping.join(30)
        assert answered == [3] * 20


_FAILS_ON_SIGNAL = """
import signal
import torch
from sottovoce.cloud.api import server

class Failing(server.Server):
    def start(self):
        super().start()
        signal.signal(signal.SIGUSR1, lambda *_: self.thread.submit(self.fail, None))

    def fail(self, requests):
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

server.Server = Failing
"""


@pytest.mark.skipif(not hasattr(torch, "AcceleratorError"), reason="torch before 2.8")
def test_a_failed_gpu_ends_the_server_for_its_supervisor(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    with (
        process(folders, tmp_path, _FAILS_ON_SIGNAL) as (started, address),
        grpc.insecure_channel(address) as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        started.send_signal(signal.SIGUSR1)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        assert started.wait(60) == Unavailable.exit_code


def test_a_taken_port_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=listen) as caught:
            Server(Settings(tmp_path, (folders[1],), listen, str(folders[0])))
    assert "--listen" in caught.value.fix


def test_a_bundle_of_another_backbone_is_refused(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tiny_bert(tmp_path / "other", seed=1)
    with pytest.raises(BundleMismatch, match="another backbone"):
        Server(Settings(tmp_path / "s", (folders[1],), "127.0.0.1:0", str(other)))
    with pytest.raises(ConfigError, match="no bundle"):
        Server(Settings(tmp_path / "s", (), "127.0.0.1:0", str(folders[0])))


def test_tls_is_served_and_its_files_are_checked(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    made = Certificate.make()
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_bytes(made.key)
    certificate.write_bytes(made.certificate)
    settings = Settings(
        tmp_path / "s",
        (folders[1],),
        "127.0.0.1:0",
        str(folders[0]),
        tls_cert=certificate,
        tls_key=key,
    )
    with cloud(settings) as running:
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(running.server.address, trusted) as channel:
            got = Caller(channel, ()).bundles.GetManifest(bundles_pb2.GetManifestRequest())
            assert got.bundle_id == running.bundle_id
        with grpc.insecure_channel(running.server.address) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                Caller(channel, ()).bundles.GetManifest(bundles_pb2.GetManifestRequest())
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    key.write_text("not a key")
    with pytest.raises(ConfigError, match="key cannot be read"):
        Server(settings)
    key.write_bytes(made.key)
    certificate.write_bytes(Certificate.make(days=(-9, -2)).certificate)
    with pytest.raises(ConfigError, match="expired"):
        Server(settings)
