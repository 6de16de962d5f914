"""Reflection answers alike under both of its names."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2 as reflection

from sottovoce.core.rpc.channels import REFLECTION, serve_reflection
from sottovoce.v1 import edge_agent_pb2

SERVICE = edge_agent_pb2.DESCRIPTOR.services_by_name["EdgeAgentService"].full_name


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    with ThreadPoolExecutor(2) as calls:
        server = grpc.server(calls)
        serve_reflection(server, [SERVICE])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
            yield opened
        server.stop(0).wait()


@pytest.mark.parametrize("name", REFLECTION)
def test_services_and_their_files_are_told(channel: grpc.Channel, name: str) -> None:
    call = channel.stream_stream(
        f"/{name}/ServerReflectionInfo",
        request_serializer=reflection.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection.ServerReflectionResponse.FromString,
    )
    asked = (
        reflection.ServerReflectionRequest(list_services=""),
        reflection.ServerReflectionRequest(file_containing_symbol=SERVICE),
        reflection.ServerReflectionRequest(file_containing_symbol="none.such"),
    )
    listed, found, missing = call(iter(asked), timeout=60)
    assert SERVICE in {each.name for each in listed.list_services_response.service}
    assert b"edge_agent.proto" in found.file_descriptor_response.file_descriptor_proto[0]
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
