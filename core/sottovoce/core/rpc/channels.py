"""The options of every gRPC channel that this project opens.

gRPC's own retries are off, because they lose the end of a stream. If a stream is opened while its
server shuts down (at every restart of a service), the call fails and reports it. But gRPC then
never completes the response, so its reader waits for ever, despite deadline and cancellation.
Without gRPC's retries this does not happen. `sottovoce.edge.client.retry` retries the calls that
may be repeated.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Final

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from sottovoce.v1 import generation_pb2, inference_pb2, training_pb2

__all__ = [
    "BEARER",
    "NO_RETRIES",
    "REFLECTION",
    "TENANTS_ONLY",
    "TENANT_KEY",
    "TOKEN_KEY",
    "host",
    "serve_reflection",
]

NO_RETRIES: Final = ("grpc.enable_retries", 0)


REFLECTION = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)


def serve_reflection(server: grpc.Server, services: Sequence[str]) -> None:
    """Let `server` list its services: the named ones and reflection itself."""
    known = (*services, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(known, server)
    answers: Any = reflection.ReflectionServicer(known)
    method = grpc.stream_stream_rpc_method_handler(
        answers.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler(REFLECTION[0], {"ServerReflectionInfo": method})
    server.add_generic_rpc_handlers((handler,))


TENANT_KEY: Final = "sottovoce-tenant"
"""The header that names the tenant."""
TOKEN_KEY: Final = "authorization"  # noqa: S105 - the name of a header
BEARER: Final = "Bearer "
"""The prefix of the token in its header."""

TENANTS_ONLY: Final = (
    training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name,
    inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name,
    generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name,
)
"""The services that require a token."""


def host(peer: str) -> str:
    """Return the host of a gRPC peer: ``ipv4:1.2.3.4:5``, ``ipv6:%5B::1%5D:5`` or ``unix:``.

    For IPv4 this is the address. For IPv6 it is the first 64 bits, because one subscriber usually
    has all addresses below them.
    """
    kind, _, rest = peer.partition(":")
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    if kind == "ipv6":
        try:
            return str(ipaddress.ip_network((address, 64), strict=False))
        except ValueError:
            return address
    return address
