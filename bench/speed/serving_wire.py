"""The load of `serving` through ``sotto-cloud serve``: a process, sockets, tokens, streams.

Why it is here: what a client sees includes the wire and the fairness of the whole server. All
tenants call their adapter by the same name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from bench.speed.serving_sides import percentile
from sottovoce.cloud.state.adapters import install
from sottovoce.cloud.state.database import Store
from sottovoce.cloud.state.tenants import TENANT_KEY, TOKEN_KEY, Tenants
from sottovoce.core.bundle.folder import Bundle
from sottovoce.v1 import inference_pb2 as wire
from sottovoce.v1 import inference_pb2_grpc

__all__ = ["over_sockets"]

NAME = "reviews"
WINDOW = 8
"""Requests a stream keeps in flight."""


def over_sockets(
    options: Namespace, folders: Sequence[Path], texts: Sequence[str], each: int
) -> dict[str, Any] | None:
    """One stream for each of ``len(folders)`` tenants; None without a bundle to serve."""
    if not (options.bundle / "manifest.json").exists():
        return None
    bundle_id = Bundle.open(options.bundle).id
    with tempfile.TemporaryDirectory() as root:
        state = Path(root)
        credentials = [
            _tenant(state, f"tenant-{number}", folder, bundle_id)
            for number, folder in enumerate(folders)
        ]
        with _serving(options, state) as address, grpc.insecure_channel(address) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)  # type: ignore[no-untyped-call]
            for metadata in credentials:  # adapters are read on the first call
                _stream(stub, metadata, bundle_id, texts[:WINDOW])
            latencies: list[list[float]] = [[] for _ in credentials]

            def run(number: int) -> None:
                own = [texts[(number + place * 7) % len(texts)] for place in range(each)]
                latencies[number] = _stream(stub, credentials[number], bundle_id, own)

            threads = [
                threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(folders))
            ]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.perf_counter() - start
    together = [latency for own in latencies for latency in own]
    p99 = [percentile(own, 0.99) for own in latencies]
    return {
        "tenants": len(folders),
        "requests_each": each,
        "in_flight_each": WINDOW,
        "precision": "float32",
        "requests_per_second": len(together) / seconds,
        **{f"p{p}_ms": percentile(together, p / 100) for p in (50, 95, 99)},
        "p99_most_to_least": max(p99) / min(p99),
    }


def _tenant(
    state: Path, tenant: str, folder: Path, bundle_id: str
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Enrols a tenant and gives it the adapter, as if trained here; metadata of its calls."""
    store = Store(state)
    token = Tenants(store).enroll(tenant)
    store.close()
    own = state / "jobs" / tenant / "adapter"
    shutil.copytree(folder, own)
    facts = json.loads((own / "adapter.json").read_text())
    facts["origin"]["bundle_id"] = bundle_id
    (own / "adapter.json").write_text(json.dumps(facts))
    install(state, tenant, NAME, own)
    return (TENANT_KEY, tenant), (TOKEN_KEY, f"Bearer {token}")


@contextmanager
def _serving(options: Namespace, state: Path) -> Iterator[str]:
    command = [sys.executable, "-c", "from sottovoce.cloud.cli import main; main()", "serve"]
    flags = ["--listen", "127.0.0.1:0", "--state", str(state), "--bundle", str(options.bundle)]
    threads = ["--threads", str(options.threads), "--training-threads", "1", "--json"]
    with subprocess.Popen([*command, *flags, *threads], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def _stream(
    stub: Any, metadata: tuple[tuple[str, str], ...], bundle_id: str, texts: Sequence[str]
) -> list[float]:
    """Seconds from each request to its answer, ``WINDOW`` of them in flight."""
    room = threading.Semaphore(WINDOW)
    sent: list[float] = []

    def requests() -> Iterator[wire.InferencePredictStreamRequest]:
        for text in texts:
            room.acquire()
            sent.append(time.perf_counter())
            request = wire.InferencePredictRequest(
                adapter=NAME, bundle_id=bundle_id, released_text=text
            )
            yield wire.InferencePredictStreamRequest(request=request)

    latencies = []
    for number, _ in enumerate(stub.PredictStream(requests(), metadata=metadata)):
        latencies.append(time.perf_counter() - sent[number])
        room.release()
    return latencies
