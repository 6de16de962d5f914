"""Bytes that are no message: sent to every method of a server, or its answer to all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

__all__ = ["babbling", "flood", "resident"]

GARBAGE = b"\xff"


def flood(
    address: str, services: tuple[str, ...], calls: int, metadata: tuple[tuple[str, str], ...] = ()
) -> Counter[str]:
    """Calls every method of the services, and of health and reflection, so many times in all.

    Returns:
        How many calls ended with each status.
    """
    pool: Any = descriptor_pool.Default()
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    methods = [method for name in names for method in pool.FindServiceByName(name).methods]
    ended: Counter[str] = Counter()
    with grpc.insecure_channel(address) as channel:
        made = [_stub(channel, method) for method in methods]
        for place in range(calls):
            ended[made[place % len(made)](metadata)] += 1
    return ended


def _stub(channel: grpc.Channel, method: MethodDescriptor) -> Any:
    sides = (method.client_streaming, method.server_streaming)
    shape = "_".join("stream" if side else "unary" for side in sides)
    bare = getattr(channel, shape)(f"/{method.containing_service.full_name}/{method.name}")

    def call(metadata: tuple[tuple[str, str], ...]) -> str:
        sent = iter([GARBAGE]) if method.client_streaming else GARBAGE
        try:
            answer = bare(sent, metadata=metadata, timeout=60)
            return f"OK: {[*answer] if method.server_streaming else answer!r}"
        except grpc.RpcError as error:
            return str(error.code().name)

    return call


@contextmanager
def babbling() -> Iterator[str]:
    """A server whose answer to every request, on whatever method, is garbage; gives its address."""

    class Babble(grpc.GenericRpcHandler):
        def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            return grpc.stream_stream_rpc_method_handler(
                lambda requests, _: (GARBAGE for _ in requests)
            )

    server = grpc.server(ThreadPoolExecutor(8), handlers=[Babble()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def resident(process: int) -> int:
    """Bytes of a process's memory that are in RAM."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(process)
