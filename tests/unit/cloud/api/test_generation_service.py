"""Texts over a real channel: streamed, ended, cancelled, refused, each tenant's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.cloud.api.generation_service import TEXTS_PER_TENANT
from sottovoce.cloud.config import Settings, UpstreamSettings
from sottovoce.cloud.models.methods import Lora, Prompt
from sottovoce.core import errors
from sottovoce.core.rpc import limits
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.rpc.streams import padded_size
from sottovoce.v1 import generation_pb2 as wire
from sottovoce.v1 import generation_pb2_grpc
from tests.support import decoders
from tests.support.backbones import TEXT, tiny_bert
from tests.support.caller import Caller
from tests.support.cloud import Cloud, cloud
from tests.support.openai_server import chat, openai_server
from tests.support.serving import install_adapter
from tests.support.tiny_bundle import tiny_bundle
from tests.support.waiting import until
from tests.support.writers import Writer, made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone, a bundle and a decoder."""
    folder = tmp_path_factory.mktemp("cloud")
    tiny_bundle(folder / "bundle", tiny_bert(folder / "bert"))
    decoders.save(folder / "decoder", "llama")
    return folder


def settings(root: Path, name: str, **changed: Any) -> Settings:
    return Settings(
        root / name, (root / "bundle",), f"unix:{root}/{name}.s", str(root / "bert"), **changed
    )


@pytest.fixture(scope="module")
def running(root: Path) -> Iterator[Cloud]:
    """A server with a decoder."""
    with cloud(settings(root, "state", decoder=str(root / "decoder"))) as started:
        yield started


@pytest.fixture(scope="module")
def acme(running: Cloud) -> Iterator[Caller]:
    with running.caller("acme") as caller:
        yield caller


def generate(caller: Caller, request: wire.GenerateRequest) -> Any:
    stub = generation_pb2_grpc.GenerationServiceStub(caller.channel)
    return stub.Generate(request, metadata=caller.metadata, timeout=60)


def asked(text: str = TEXT[0], tokens: int = 12, **fields: Any) -> wire.GenerateRequest:
    sampling = wire.GenerateSampling(max_tokens=tokens)
    return wire.GenerateRequest(released_text=text, sampling=sampling, **fields)


def told(responses: Any) -> tuple[str, wire.GenerateDone]:
    *deltas, last = list(responses)
    assert last.WhichOneof("event") == "done"
    assert all(response.delta_text for response in deltas)
    return "".join(response.delta_text for response in deltas), last.done


def refused(caller: Caller, request: wire.GenerateRequest) -> errors.SottovoceError:
    with pytest.raises(grpc.RpcError) as caught:
        list(generate(caller, request))
    error = from_rpc_error(caught.value, peer="cloud")
    assert caught.value.code().value[0] == error.code
    assert error.fix
    return error


@pytest.fixture(scope="module")
def plain(root: Path) -> Writer:
    return made(root / "decoder", root, None)


def test_a_text_is_streamed_and_says_how_it_ended(acme: Caller, plain: Writer) -> None:
    responses = list(generate(acme, asked()))
    assert len(responses) > 5
    text, done = told(responses)
    assert text == plain.alone(TEXT[0], 12)
    prompt = len(plain.spent.chat.opening(TEXT[0]))
    assert done.finish_reason == wire.FINISH_REASON_LENGTH
    assert (done.prompt_tokens, done.completion_tokens) == (prompt, 12)


def test_a_conversation_is_answered(acme: Caller, plain: Writer) -> None:
    roles = (wire.ROLE_SYSTEM, wire.ROLE_USER, wire.ROLE_ASSISTANT, wire.ROLE_TOOL)
    turns = [
        wire.ReleasedTurn(role=role, released_text=text)
        for role, text in zip(roles, TEXT, strict=True)
    ]
    request = asked(conversation=wire.ReleasedConversation(turns=turns))
    assert request.WhichOneof("prompt") == "conversation"
    _, done = told(generate(acme, request))
    laid_out = "".join(
        f"<|im_start|>{role}\n{text}<|im_end|>\n"
        for role, text in zip(("system", "user", "assistant", "tool"), TEXT, strict=True)
    )
    ids = plain.spent.tokenizer(laid_out + "<|im_start|>assistant\n")["input_ids"]
    assert done.prompt_tokens == len(ids)


def test_sizes_on_the_wire_tell_no_lengths_of_words(acme: Caller) -> None:
    sizes = {response.ByteSize() for response in generate(acme, asked(tokens=20))}
    assert sizes == {padded_size(1)}


def test_stop_strings_end_a_text(acme: Caller, plain: Writer) -> None:
    whole = plain.alone(TEXT[0], 24)
    text, done = told(generate(acme, asked(tokens=24, released_stops=[whole[4:9]])))
    assert text == whole[: whole.index(whole[4:9])]
    assert done.finish_reason == wire.FINISH_REASON_STOP


def test_a_cancelled_call_frees_its_place(running: Cloud, acme: Caller) -> None:
    open_ = running.server.thread._open
    calls = [generate(acme, asked("The", 500)) for _ in range(3)]
    for call in calls:
        next(call)
    assert len(open_) == 3
    for call in calls:
        call.cancel()
    until(lambda: not open_)
    assert told(generate(acme, asked()))


def test_no_text_takes_for_ever(acme: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WRITING_SECONDS", -1.0)
    assert "took too long" in refused(acme, asked()).problem


def test_tenants_with_one_adapter_name_have_each_their_own(running: Cloud, root: Path) -> None:
    names = ("first", "second", "third")
    state, own, tokens = running.settings.state, [], []
    for seed, tenant in enumerate(names):
        method = (Lora(), Prompt(4), Lora(rank=3))[seed]
        folder = state / "jobs" / f"made-{tenant}" / "adapter"
        writer = made(root / "decoder", folder, method, seed=seed, bundle_id=running.bundle_id)
        tokens.append(running.server.tenants.enroll(tenant))
        install_adapter(running.server.database, tenant, "mail", folder)
        own.append(writer.alone(TEXT[2], 10))
    assert len(set(own)) == 3
    wrong: list[str] = []
    request = asked(TEXT[2], 10, adapter="mail", bundle_id=running.bundle_id)

    def ask(number: int, caller: Caller) -> None:
        texts = [told(generate(caller, request))[0] for _ in range(3)]
        wrong.extend(names[number] for text in texts if text != own[number])

    callers = [running.caller(name, token) for name, token in zip(names, tokens, strict=True)]
    with callers[0] as first, callers[1] as second, callers[2] as third:
        threads = [
            threading.Thread(target=ask, args=pair)
            for pair in [*enumerate((first, second, third))] * 2
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not wrong
        assert isinstance(refused(first, asked(adapter="mail", bundle_id="x")), errors.NotReady)
    with running.caller("fourth") as other:
        assert isinstance(refused(other, request), errors.NotFound)
    with running.caller("first", token="guess") as thief:  # noqa: S106
        assert isinstance(refused(thief, request), errors.Unauthenticated)


TURN = wire.ReleasedTurn(role=wire.ROLE_USER, released_text="x")
BAD: dict[str, Callable[[], wire.GenerateRequest]] = {
    "prompt": lambda: asked(""),
    "prompt ": lambda: asked("x" * (limits.LARGEST_PROMPT + 1)),
    "prompt  ": lambda: asked("word " * 2_000),  # more tokens than the model has positions
    "conversation.turns": lambda: asked(
        conversation=wire.ReleasedConversation(turns=[TURN] * (limits.MOST_TURNS + 1))
    ),
    "conversation.turns.role": lambda: asked(
        conversation=wire.ReleasedConversation(turns=[wire.ReleasedTurn(released_text="x")])
    ),
    "released_stops": lambda: asked(released_stops=["x"] * (limits.MOST_STOPS + 1)),
    "released_stops ": lambda: asked(released_stops=["x" * (limits.LONGEST_STOP + 1)]),
    "released_stops  ": lambda: asked(released_stops=[""]),
    "sampling.max_tokens": lambda: asked(tokens=limits.MOST_NEW_TOKENS + 1),
    "sampling.temperature": lambda: wire.GenerateRequest(
        released_text="x", sampling=wire.GenerateSampling(temperature=float("nan"))
    ),
    "sampling.top_p": lambda: wire.GenerateRequest(
        released_text="x", sampling=wire.GenerateSampling(top_p=1.1)
    ),
    "sampling.top_k": lambda: wire.GenerateRequest(
        released_text="x", sampling=wire.GenerateSampling(top_k=5)
    ),
    "format": lambda: asked(format=wire.ReleasedFormat()),
    "padding": lambda: asked(padding=b"x"),
    "adapter": lambda: asked(adapter="../acme"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_out_of_bounds_is_refused(acme: Caller, name: str) -> None:
    error = refused(acme, BAD[name]())
    assert isinstance(error, errors.InvalidInput)
    assert error.subject == name.strip()


def test_too_many_texts_of_a_tenant_are_told_when_to_come_back(
    running: Cloud, acme: Caller
) -> None:
    calls = [generate(acme, asked("The", 500)) for _ in range(TEXTS_PER_TENANT)]
    for call in calls:
        next(call)
    assert isinstance(refused(acme, asked()), errors.Overloaded)
    with running.caller("patient") as other:
        assert told(generate(other, asked(tokens=2)))
    for call in calls:
        call.cancel()
    until(lambda: not running.server.thread._open)


def test_a_cloud_without_a_model_that_writes_says_so(root: Path) -> None:
    with cloud(settings(root, "none")) as running, running.caller() as caller:
        error = refused(caller, asked())
    assert isinstance(error, errors.NotReady)
    assert "--decoder or --upstream" in error.fix


def test_a_server_behind_the_cloud_writes_in_its_place(root: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sesame\n")
    with openai_server(chat("In ", "Paris.", usage=(7, 2))) as behind:
        upstream = UpstreamSettings(behind.url, "big", key, ("acme/mail=acme-mail",))
        with (
            cloud(settings(root, "behind", upstream=upstream)) as running,
            running.caller("acme") as caller,
            running.caller("other") as other,
        ):
            conversation = wire.ReleasedConversation(turns=[TURN])
            text, done = told(generate(caller, asked(conversation=conversation, adapter="mail")))
            assert (text, done.prompt_tokens, done.completion_tokens) == ("In Paris.", 7, 2)
            assert done.finish_reason == wire.FINISH_REASON_STOP
            assert isinstance(refused(other, asked(adapter="mail")), errors.NotFound)
            behind.status = 429
            assert isinstance(refused(caller, asked()), errors.Overloaded)
            behind.status = 500
            assert isinstance(refused(caller, asked()), errors.Unavailable)
    _, headers, body = behind.asked[0]
    assert headers["Authorization"] == "Bearer sesame"
    assert body["model"] == "acme-mail"
    assert "other" not in str(behind.asked)
