"""A server that talks no sense."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

GARBAGE = b"\xff"


@contextmanager
def babbling() -> Iterator[str]:
    """Run a server that answers every request with garbage; yield its address."""

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
