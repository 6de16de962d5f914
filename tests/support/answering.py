"""What may stand behind a balancer: a gRPC server that answers any call with its own name.

As a program, ``python -m tests.support.answering PORT``, one that dies in the middle of every call.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Answering(grpc.GenericRpcHandler):
    """Answers every message of a call; those named ``hold`` when `let_go` is set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[tuple[str, dict[str, str | bytes]]] = []
        self.let_go = threading.Event()
        self.address = ""
        self.health = health.HealthServicer()

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        self.seen.append((method, dict(handler_call_details.invocation_metadata)))

        def answer(messages: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
            for message in messages:
                if message == b"die" and self.name == "dying":
                    os._exit(9)
                if message == b"hold":
                    self.let_go.wait(120)
                yield self.name.encode()

        return grpc.stream_stream_rpc_method_handler(answer)

    def healthy(self, yes: bool) -> None:
        """Return the server's health."""
        said = health_pb2.HealthCheckResponse
        self.health.set("", said.SERVING if yes else said.NOT_SERVING)


@contextmanager
def answering(name: str, address: str = "127.0.0.1:0") -> Iterator[Answering]:
    """One that runs as long as the block, healthy at first."""
    found = Answering(name)
    with ThreadPoolExecutor(32) as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(found.health, server)
        server.add_generic_rpc_handlers((found,))
        found.address = f"127.0.0.1:{server.add_insecure_port(address)}"
        found.healthy(True)
        server.start()
        try:
            yield found
        finally:
            found.let_go.set()
            server.stop(None).wait()


if __name__ == "__main__":
    with answering("dying", f"127.0.0.1:{sys.argv[1]}"):
        threading.Event().wait()
