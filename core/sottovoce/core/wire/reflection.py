"""Server reflection, under its current name and its earlier one.

grpcurl and similar tools ask for ``grpc.reflection.v1`` first, and newer ones for nothing else;
grpcio knows ``v1alpha`` alone. The two differ only in the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

__all__ = ["REFLECTION", "serve_reflection"]

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
