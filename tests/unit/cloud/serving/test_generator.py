"""Texts of many tenants at once are, token by token, what each would be alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.models.decoder import Decoder
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.models.rows import stacked
from sottovoce.cloud.serving.generator import (
    CPU_PART,
    Asked,
    Finish,
    Generator,
    Reservations,
    Sampling,
)
from sottovoce.core.errors import (
    BundleMismatch,
    InvalidInput,
    NotReady,
    Overloaded,
    QuotaExceeded,
)
from tests.support import decoders
from tests.support.backbones import TEXT
from tests.support.serving import make
from tests.support.waiting import until
from tests.support.writers import Writer, made, read, short, writing

METHODS: tuple[Method | None, ...] = (
    None,
    Lora(),
    Lora(rank=3, feed_forward=True),
    Prompt(5),
    Prefix(4),
    Full(),
)


@pytest.fixture(scope="module")
def bones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decoders.save(tmp_path_factory.mktemp("decoders") / "tiny", "llama")


@pytest.fixture(scope="module")
def writers(bones: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Writer]:
    """One of every kind."""
    root = tmp_path_factory.mktemp("adapters")
    return [
        made(bones, root / f"job{n}" / "adapter", method, seed=n, bundle_id="b")
        for n, method in enumerate(METHODS)
    ]


@pytest.fixture(scope="module")
def generator(bones: Path) -> Iterator[Generator]:
    with writing(bones) as generator:
        yield generator


def held(generator: Generator) -> Callable[[], None]:
    """Stop the thread until the returned function is called."""
    entered, gate = threading.Event(), threading.Event()

    def hold(requests: Sequence[None]) -> Iterator[tuple[int, None]]:
        entered.set()
        assert gate.wait(60)
        return enumerate(requests)

    generator._thread.submit(hold, None, tenant="gate")
    assert entered.wait(60)
    return gate.set


@pytest.mark.parametrize("family", ["qwen2", "mistral", "gemma3"])
def test_rows_of_every_family_are_as_transformers_has_them(family: str, tmp_path: Path) -> None:
    bones = decoders.save(tmp_path / "tiny", family, sliding_window=16)
    adapter = made(bones, tmp_path / "job" / "adapter", Lora(), bundle_id="b")
    prompts = [TEXT[0], TEXT[1] * 3, TEXT[2]]  # of 15 to 45 tokens, past the window
    alone = [
        writer.generated(text, 16)
        for writer in (made(bones, tmp_path, None), adapter)
        for text in prompts
    ]
    with writing(bones) as generator:
        go = held(generator)
        streams = [
            generator.submit(short(text, 16), files, bundle_id="b", tenant=text)
            for files in (None, adapter.files)
            for text in prompts
        ]
        go()
        assert [read(stream)[0] for stream in streams] == alone
    assert len(set(alone)) == 6


def test_every_adapter_writes_its_own_text_beside_all_others(
    generator: Generator, writers: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve rows of six adapters in one batch; each starts when the one before has written a
    little, so that prompts are read while others write."""
    monkeypatch.setattr(generator, "_part", 7)
    asked = [(writer, text) for text in (TEXT[0], TEXT[1] * 2) for writer in writers]
    alone = [writer.alone(text, 16) for writer, text in asked]
    streams, begun = [], []
    for number, (writer, text) in enumerate(asked):
        streams.append(
            generator.submit(short(text, 16), writer.files, bundle_id="b", tenant=str(number % 3))
        )
        if number % 3 == 0:
            begun.append((number, next(streams[-1])))
    first = {number: piece.text for number, piece in begun}
    found = [first.get(number, "") + read(stream)[0] for number, stream in enumerate(streams)]
    assert found == alone
    assert len(set(alone)) == len(alone)


def test_the_references_are_what_transformers_generates(writers: list[Writer]) -> None:
    for writer, method in zip(writers, METHODS, strict=True):
        if not isinstance(method, Prefix):  # whose text has other positions there
            assert writer.alone(TEXT[0], 12) == writer.generated(TEXT[0], 12)


def test_canaries_never_cross(bones: Path, generator: Generator, tmp_path: Path) -> None:
    """Eight tenants with an adapter each, many times at once and in any order."""
    kinds: list[Method] = [Lora(), Prompt(3), Prefix(2), Lora(rank=2)] * 2
    canaries = [
        made(bones, tmp_path / f"job{n}" / "adapter", method, seed=50 + n, bundle_id="b")
        for n, method in enumerate(kinds)
    ]
    own = [canary.alone("The", 10) for canary in canaries]
    assert len(set(own)) == len(own)
    wrong: list[int] = []

    def ask(number: int) -> None:
        for _ in range(4):
            text, _ = read(
                generator.submit(
                    short("The", 10), canaries[number].files, bundle_id="b", tenant=str(number)
                )
            )
            if text != own[number]:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


def test_conversations_are_laid_out_as_in_training(
    generator: Generator, writers: list[Writer]
) -> None:
    turns = (Turn("system", "Be brief."), Turn("user", "Where is the train?"))
    plain = writers[0].spent
    expected = writers[0].ids(plain.chat.prompt(turns), 16)
    text, done = read(generator.submit(Asked(turns, Sampling(max_tokens=16))))
    assert text == plain.chat.text(expected).rstrip("\ufffd")
    assert done.prompt_tokens == len(plain.chat.prompt(turns))


def test_how_a_text_ended_is_said_with_counts(generator: Generator, writers: list[Writer]) -> None:
    prompt = len(writers[0].spent.chat.opening(TEXT[0]))
    _, done = read(generator.submit(short(TEXT[0], 9)))
    assert (done.finish, done.prompt_tokens, done.completion_tokens) == (Finish.LENGTH, prompt, 9)
    prompted = generator.submit(short(TEXT[0], 9), writers[3].files, bundle_id="b")
    assert read(prompted)[1].prompt_tokens == prompt + 5
    # The context has 512 positions: what does not fit is not written.
    long = "The dog " * 160
    ids = len(writers[0].spent.chat.opening(long))
    assert 450 < ids < 512
    _, done = read(generator.submit(short(long, 100)))
    assert (done.finish, done.completion_tokens) == (Finish.LENGTH, 512 - ids)


def test_the_models_end_is_not_shown(
    generator: Generator, writers: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = writers[0].ids(writers[0].spent.chat.opening(TEXT[0]), 12)
    end = next(token for token in ids[3:] if token not in ids[:3])
    monkeypatch.setattr(generator, "_ends", frozenset({end}))
    text, done = read(generator.submit(short(TEXT[0])))
    at = ids.index(end)
    assert text == writers[0].spent.chat.text(ids[:at]).rstrip("\ufffd")
    assert (done.finish, done.completion_tokens) == (Finish.STOP, at + 1)


def test_a_stop_string_ends_a_text_across_tokens(
    generator: Generator, writers: list[Writer]
) -> None:
    whole = writers[0].alone(TEXT[1], 24)
    stop = whole[5:12]
    text, done = read(generator.submit(short(TEXT[1], 24, stop, "never")))
    assert text == whole[: whole.index(stop)]
    assert done.finish is Finish.STOP
    assert done.completion_tokens < 24
    kept, done = read(generator.submit(short(TEXT[1], 24, whole[-1] + "x")))
    assert (kept, done.finish) == (whole, Finish.LENGTH)  # what was held back is given at the end


def test_seeds_make_texts_come_again(generator: Generator) -> None:
    def drawn(seed: int | None) -> str:
        return read(generator.submit(short("The", 20, temperature=1.5, top_p=0.9, seed=seed)))[0]

    go = held(generator)
    others = [generator.submit(short(text, temperature=1.0)) for text in TEXT]
    go()
    one = drawn(1)
    for other in others:
        read(other)
    assert one == drawn(1)
    assert len({one, drawn(2), drawn(None)}) == 3


def test_the_tokenizers_tokens_are_not_counted_for_every_token(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(generator._decoder.tokenizer)
    count, counted = kind.__len__, []
    monkeypatch.setattr(kind, "__len__", lambda own: counted.append(own) or count(own))
    assert read(generator.submit(short(TEXT[0], 4)))[1].completion_tokens == 4
    assert not counted


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_a_logit_that_is_no_number_ends_its_own_text(
    generator: Generator, writers: list[Writer], monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    expected = [writers[0].alone(text, 4) for text in TEXT[:2]]
    logits = type(generator._decoder).logits

    def spoilt(decoder: Decoder, states: Tensor, *rest: Any) -> Tensor:
        found = logits(decoder, states, *rest)
        if len(found) == 2:
            found[1, 3] = wrong
        return found

    go = held(generator)
    streams = [generator.submit(short(text, 4)) for text in TEXT[:2]]
    monkeypatch.setattr(Decoder, "logits", spoilt)
    go()
    until(lambda: all(stream.ended.done() for stream in streams))
    bad, good = sorted(streams, key=lambda stream: stream.ended.exception() is None)
    assert "not finite" in str(bad.ended.exception())
    assert read(good)[0] in expected


def test_a_cancelled_text_gives_everything_back_at_the_next_step(
    bones: Path, writers: list[Writer]
) -> None:
    with writing(bones) as generator:
        streams = [
            generator.submit(short(TEXT[n], 300), writers[1].files, bundle_id="b", tenant="a")
            for n in range(2)
        ]
        for stream in streams:
            next(stream)
        assert generator._reservations.held > 0
        streams[0].cancel()
        streams[1].cancel()
        with pytest.raises(CancelledError):
            list(streams[0])
        assert generator._reservations.held == 0
        assert not generator._thread._open
        until(lambda: not len(generator._thread._queue))


def test_a_reader_who_does_not_read_holds_up_nobody(generator: Generator) -> None:
    asleep = generator.submit(short(TEXT[0], 200), tenant="asleep")
    (row,) = generator._thread._open
    until(lambda: row.held_back is not None)
    assert read(generator.submit(short(TEXT[1]), tenant="awake"))[1].finish is Finish.LENGTH
    assert row.held_back is not None
    assert read(asleep)[1].completion_tokens == 200  # goes on once it is read


def test_a_long_prompt_is_read_in_parts_and_others_write_meanwhile(generator: Generator) -> None:
    steps: list[list[int]] = []
    advance = generator._advance
    generator._advance = lambda texts, parts: (  # type: ignore[method-assign]
        steps.append([part.length for part in parts]) or advance(texts, parts)
    )
    try:
        go = held(generator)
        long = generator.submit(short("The dog " * 160, 4), tenant="long")
        brief = generator.submit(short("The", 12), tenant="brief")
        go()
        read(brief)
        read(long)
    finally:
        del generator._advance
    prompt = [length for step in steps for length in step if length > 1]
    assert max(prompt) == CPU_PART
    assert sum(length == CPU_PART for length in prompt) == 3
    last = max(n for n, step in enumerate(steps) if CPU_PART in step)
    assert sum(step == [1] for step in steps[:last]) >= 2


def test_adapters_stay_stacked_while_a_prompt_is_read(
    generator: Generator, writers: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(
        "sottovoce.cloud.serving.generator.stacked",
        lambda rows: calls.append(len(rows)) or stacked(rows),
    )
    monkeypatch.setattr(generator, "_ends", frozenset())
    go = held(generator)
    long = generator.submit(short("The dog " * 160, 4), writers[1].files, bundle_id="b")
    brief = generator.submit(short("The", 12), writers[2].files, bundle_id="b")
    go()
    read(brief)
    read(long)
    assert calls[: calls.index(2)] == [1, 1]  # the prompt has four parts


def test_a_row_that_fails_fails_alone(
    generator: Generator, writers: list[Writer], tmp_path: Path, bones: Path
) -> None:
    broken = made(bones, tmp_path / "job" / "adapter", Prompt(2), bundle_id="b")
    held_, release = generator._adapters.acquire(broken.files)  # type: ignore[arg-type]
    assert held_.row.prompt is not None
    go = held(generator)
    alone = writers[1].alone(TEXT[0], 8)
    bad = generator.submit(short(TEXT[0], 8), broken.files, bundle_id="b", tenant="x")
    good = generator.submit(short(TEXT[0], 8), writers[1].files, bundle_id="b", tenant="y")
    held_.row.prompt.fill_(torch.nan)
    go()
    assert read(good)[0] == alone
    with pytest.raises(Exception, match="not finite"):
        read(bad)
    release()


def test_what_cannot_be_written_is_refused_with_the_fix(
    bones: Path, generator: Generator, writers: list[Writer], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="takes 1 to 511") as caught:
        generator.submit(short("The dog " * 600))
    assert caught.value.subject == "prompt"
    with pytest.raises(BundleMismatch):
        generator.submit(short("a"), writers[1].files, bundle_id="other")
    other = decoders.save(tmp_path / "other", "llama", hidden_size=32)
    stranger = made(other, tmp_path / "job" / "adapter", Lora())
    with pytest.raises(BundleMismatch, match="another decoder"):
        generator.submit(short("a"), stranger.files)
    classifies = make(bones, tmp_path / "job2" / "adapter", Lora())
    with pytest.raises(NotReady, match="classify"):
        generator.submit(short("a"), classifies.files)
    with writing(bones, memory=200_000) as small:
        with pytest.raises(QuotaExceeded, match="memory"):
            small.submit(short("The", 400))
        assert read(small.submit(short("The", 8)))
        assert small._reservations.held == 0


def test_an_attention_that_rows_cannot_share_is_refused(
    bones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.cloud.serving.generator.ATTENTION", "eager")
    with pytest.raises(InvalidInput, match="attention") as caught, writing(bones):
        pass
    assert "--upstream" in caught.value.fix


def test_what_is_given_back_can_be_had_again() -> None:
    held = Reservations(100, patience=0)
    give_back = held.reserve("a", 50)
    other = held.reserve("b", 50)
    assert held.held == 100
    with pytest.raises(Overloaded):
        held.reserve("c", 1)
    give_back()
    held.reserve("c", 50)()
    other()
    assert held.held == 0


def test_a_tenant_has_half_at_most() -> None:
    held = Reservations(100, patience=0)
    held.reserve("a", 30)
    with pytest.raises(Overloaded):
        held.reserve("a", 21)
    held.reserve("a", 20)
    held.reserve("b", 50)


def test_what_can_never_be_had_is_refused_for_good() -> None:
    with pytest.raises(QuotaExceeded, match="memory") as caught:
        Reservations(100, patience=60).reserve("a", 51)
    assert "--generation-memory" in caught.value.fix


def test_one_waits_for_others_to_be_done() -> None:
    held = Reservations(100, patience=60)
    give_back = held.reserve("a", 50)
    held.reserve("b", 40)
    waiting = threading.Timer(0.1, give_back)
    waiting.start()
    held.reserve("c", 50)
    waiting.join()
    assert held.held == 90
