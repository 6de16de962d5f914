"""The wire: committed stubs are current, and its types keep clear text at home."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from sottovoce.v1 import (
    bundles_pb2,
    edge_adapters_pb2,
    edge_agent_pb2,
    edge_chat_pb2,
    edge_owner_pb2,
    enrollment_pb2,
    generation_pb2,
    inference_pb2,
    training_pb2,
)
from tests.support.paths import ROOT

PROTOS = ROOT / "protos"
LOCAL_FILES = (edge_agent_pb2, edge_chat_pb2, edge_adapters_pb2, edge_owner_pb2)
CLOUD_FILES = (training_pb2, inference_pb2, generation_pb2, bundles_pb2, enrollment_pb2)


def test_committed_stubs_match_the_proto_files(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not in a device's environment")
    sources = sorted(str(p.relative_to(PROTOS)) for p in PROTOS.glob("sottovoce/v1/*.proto"))
    outs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *outs, *sources],
        cwd=PROTOS,
        check=True,
    )
    made = sorted(tmp_path.rglob("*.py*"))
    assert len(made) == 3 * len(sources)
    for file in made:
        committed = PROTOS / file.relative_to(tmp_path)
        assert committed.read_bytes() == file.read_bytes(), f"{committed} is stale: `make protos`"


def test_every_file_says_what_other_languages_call_its_package() -> None:
    """The same in each, or a generator would scatter the package."""
    files = sorted(PROTOS.glob("sottovoce/v1/*.proto"))
    assert len(files) == len(LOCAL_FILES) + len(CLOUD_FILES)
    said = {
        tuple(line for line in file.read_text("utf-8").splitlines() if line.startswith("option "))
        for file in files
    }
    assert len(said) == 1
    names = {line.split()[1] for line in said.pop()}
    assert names == {
        "csharp_namespace",
        "go_package",
        "java_multiple_files",
        "java_package",
        "objc_class_prefix",
        "swift_prefix",
    }


def _messages(descriptor: Descriptor) -> list[Descriptor]:
    """Every message reachable from one, itself included."""
    seen: dict[str, Descriptor] = {}
    waiting = [descriptor]
    while waiting:
        message = waiting.pop()
        if message.full_name not in seen:
            seen[message.full_name] = message
            waiting += [f.message_type for f in message.fields if f.message_type is not None]
    return [*seen.values()]


def _rpcs(module: object) -> list[tuple[str, Descriptor, Descriptor]]:
    services = module.DESCRIPTOR.services_by_name.values()  # type: ignore[attr-defined]
    return [
        (f"{s.name}.{m.name}", m.input_type, m.output_type) for s in services for m in s.methods
    ]


def test_device_local_types_never_reach_the_cloud() -> None:
    files = {module.DESCRIPTOR.name for module in LOCAL_FILES}
    local = {
        message.full_name
        for module in LOCAL_FILES
        for _, request, response in _rpcs(module)
        for message in _messages(request) + _messages(response)
        if message.file.name in files
    }
    assert local
    for module in CLOUD_FILES:
        for rpc, request, response in _rpcs(module):
            sent = {each.full_name for each in _messages(request) + _messages(response)}
            shared = local & sent
            assert not shared, f"{rpc} uses device-local types {shared}"


def test_every_rpc_has_its_own_request_and_response() -> None:
    types = [
        descriptor.full_name
        for module in (*LOCAL_FILES, *CLOUD_FILES)
        for _, request, response in _rpcs(module)
        for descriptor in (request, response)
    ]
    assert len(types) == len(set(types))


def test_every_enum_starts_unspecified() -> None:
    enums = [
        enum
        for module in (*LOCAL_FILES, *CLOUD_FILES)
        for enum in module.DESCRIPTOR.enum_types_by_name.values()
    ]
    assert enums
    for enum in enums:
        assert enum.values_by_number[0].name.endswith("_UNSPECIFIED")


def test_cloud_requests_carry_only_released_text() -> None:
    """Every string a device fills with content says in its name that it was released."""
    fields = {
        field.name
        for message in (
            "PrivatizedExample",
            "InferenceServicePredictRequest",
            "EncodeRequest",
            "GenerateRequest",
            "ReleasedConversation",
            "ReleasedTurn",
            "ReleasedTool",
            "ReleasedToolCall",
            "GenerateSampling",
        )
        for field in {
            **training_pb2.DESCRIPTOR.message_types_by_name,
            **inference_pb2.DESCRIPTOR.message_types_by_name,
            **generation_pb2.DESCRIPTOR.message_types_by_name,
        }[message].fields
        if field.type == field.TYPE_STRING
    }
    assert fields == {
        "example_id",
        "released_output",
        "released_text",
        "label",
        "released_plain_tokens",
        "released_stops",
        "released_tool",
        "released_name",
        "released_description",
        "released_parameters",
        "released_arguments",
        "id",  # of a call: a number that the device gives it
        "tool_call_id",
        "adapter",
        "bundle_id",
        "request_id",
        "mechanism",
    }


def test_an_encode_request_has_no_room_for_text_or_token_ids() -> None:
    """Bytes are the noisy vectors, and padding that may hold zeros alone (`check_padding`); else
    names of public things and two numbers."""
    fields = inference_pb2.EncodeRequest.DESCRIPTOR.fields_by_name
    held = [name for name, f in fields.items() if f.type == f.TYPE_BYTES]
    assert held == ["vectors", "padding"]
    assert {name for name, f in fields.items() if f.type not in (f.TYPE_BYTES, f.TYPE_STRING)} == {
        "eta",
        "tokens",
    }
    assert not any(f.is_repeated for f in fields.values())
