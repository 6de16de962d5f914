"""Prompts teach from shares of their own, all is paid before anything leaves, and once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import (
    InvalidInput,
    NotFound,
    NotReady,
    QuotaExceeded,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client.openai_client import NextTokens, OpenAIClient
from sottovoce.edge.config import ChatConfig
from sottovoce.edge.tasks import distill
from sottovoce.edge.tasks.distill import Ballots, Distilled, Distiller, Wanted
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, opened
from tests.support.few_shot_server import few_shot_server, shots
from tests.support.upstream_server import Server

WANTED = Wanted(8.0, 1e-5, 10, 40, "m", Setting("light", "pct2t.v2", "names"), few=True)
WORDS = {"outside": "river garden stone", "clinic": "doctor"}
EXAMPLES = [
    agent.LabelledText(text=f"The {words} was there, Zelphira{n}{label}", label=label)
    for n in range(120)
    for label, words in WORDS.items()
]
PUBLIC = [f"the {words} {'the ' * n}".strip() for n in range(20) for words in WORDS.values()]


@pytest.fixture
def server() -> Iterator[Server]:
    with few_shot_server() as running:
        yield running


@pytest.fixture
def device(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Parts]:
    with opened(configured(tmp_path, bundle=small_bundle_folder), lexicon_tagger) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distill, "_PAUSE", 0.0)


def distiller(device: Parts, server: Server) -> Distiller:
    return Distiller(
        device.engine,
        device.store,
        device.ledger,
        device.releases,
        Ballots(device.config.agent.state, device.store.seal),
        OpenAIClient(ChatConfig(upstream=server.url)),
    )


def vote(
    device: Parts,
    server: Server,
    examples: Sequence[agent.LabelledText] = EXAMPLES,
    public: Sequence[str] = PUBLIC,
    wanted: Wanted = WANTED,
) -> tuple[Distilled, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    found = distiller(device, server).distill(examples, public, wanted, told.extend)
    return found, told


def prompts_of(server: Server) -> list[str]:
    """Return the teachers' prompts without the server check."""
    return [b["prompt"] for _, _, b in server.asked if b["prompt"] != distill._NOTHING_PRIVATE]


def under_way(device: Parts) -> list[Path]:
    return [f for f in (device.config.agent.state / "votes").iterdir() if f.name != "lock"]


def test_public_texts_get_the_labels_that_the_examples_teach(device: Parts, server: Server) -> None:
    found, told = vote(device, server)
    assert found.plan.teachers == 24
    assert found.answered == len(told) == found.plan.answer.steps == 20
    right = sum(("doctor" in text) == (label == "clinic") for text, label in told)
    assert right >= 19
    assert {text for text, _ in told} <= set(PUBLIC)
    assert under_way(device) == []


def test_teachers_share_the_examples_and_see_releases_alone(device: Parts, server: Server) -> None:
    vote(device, server)
    prompts = {prompt.rsplit("Text:", 1)[0] for prompt in prompts_of(server)}
    assert len(prompts_of(server)) == len(prompts) * len(PUBLIC)
    shown = [shot for prompt in prompts for shot in shots(prompt)]
    assert len(shown) == len(EXAMPLES)
    assert Counter(label for _, label in shown) == Counter(e.label for e in EXAMPLES)
    everything = json.dumps([body for _, _, body in server.asked])
    assert "Zelphira" not in everything
    assert len({len(shots(prompt)) for prompt in prompts}) > 3, "shares are drawn"


def test_all_is_charged_before_anything_leaves(device: Parts, server: Server) -> None:
    usual, spent = server.answer, []

    def look(body: dict[str, Any]) -> Iterable[bytes]:
        spent.append(device.ledger.spending())
        return usual(body)

    server.answer = look
    before = device.ledger.spending()
    found, _ = vote(device, server)
    after = device.ledger.spending()
    assert spent[0] == before, "the question whether anybody answers is paid for"
    assert len(spent) > 1
    assert all(each == after for each in spent[1:])
    assert after.releases == len({e.text for e in EXAMPLES} | set(PUBLIC))
    assert after.labels_as_they_are == len(EXAMPLES)
    assert (after.adapters_private, after.adapter_epsilon) == (1, found.plan.budget.epsilon)
    assert after.adapter_delta == 1e-5
    assert [each.purpose for each in device.ledger.accounts.since(0)] == [("distill", "m")]


def test_a_spent_ledger_lets_nothing_leave(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, server: Server
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_PRIVACY_LEDGER_LIMIT="10")
    with opened(config, lexicon_tagger) as device:
        spent = device.ledger.spending()
        with pytest.raises(QuotaExceeded, match="ledger"):
            vote(
                device, server, wanted=replace(WANTED, setting=Setting("light", "pct2t.v2", "all"))
            )
        assert device.ledger.spending() == spent
    assert prompts_of(server) == []


def test_a_vote_that_was_cut_off_goes_on_and_is_not_charged_again(
    device: Parts, server: Server
) -> None:
    usual, calls = server.answer, 7 * len(PUBLIC) + 3

    def break_off(body: dict[str, Any]) -> Iterable[bytes]:
        if len(server.asked) > calls:
            return [b"gone"]
        return usual(body)

    server.answer = break_off
    with pytest.raises(Unavailable):
        vote(device, server)
    spent = device.ledger.spending()
    before = len({prompt.rsplit("Text:", 1)[0] for prompt in prompts_of(server)})
    server.answer = usual
    server.asked.clear()
    _, told = vote(device, server)
    assert len(told) == 20
    assert device.ledger.spending() == spent
    again = {prompt.rsplit("Text:", 1)[0] for prompt in prompts_of(server)}
    assert len(again) < before + len(again) <= 25  # those that were done are not asked again


def test_answers_are_drawn_once(device: Parts, server: Server) -> None:
    told: list[list[tuple[str, str]]] = []

    def tell(answers: Sequence[tuple[str, str]]) -> None:
        told.append([*answers])
        if len(told) == 1:
            raise QuotaExceeded("full", fix="none", subject="disk")

    doing = distiller(device, server)
    with pytest.raises(QuotaExceeded):
        doing.distill(EXAMPLES, PUBLIC, WANTED, tell)
    server.asked.clear()
    doing.distill(EXAMPLES, PUBLIC, WANTED, tell)
    assert server.asked == []
    assert told[0] == told[1]
    spent = device.ledger.spending()
    doing.distill(EXAMPLES, PUBLIC, WANTED, tell)
    assert server.asked, "the same call afterwards is another vote"
    after = device.ledger.spending()
    assert (after.spent, after.releases) == (spent.spent, spent.releases)
    assert (after.adapters_private, after.adapter_epsilon) == (2, 16.0)


def test_who_names_no_label_does_not_vote(device: Parts, server: Server) -> None:
    told = {"choices": [{"logprobs": {"top_logprobs": [{" neither": -0.1}]}}]}
    server.answer = lambda body: [json.dumps(told).encode()]
    with pytest.raises(NotReady, match="agreed on none"):
        vote(device, server, wanted=replace(WANTED, epsilon=50.0))  # whose noise reaches no bar
    assert under_way(device) == []


def test_a_server_that_falters_is_asked_again(device: Parts, server: Server) -> None:
    usual, times = server.answer, Counter[str]()

    def falter(body: dict[str, Any]) -> Iterable[bytes]:
        if body["prompt"] == distill._NOTHING_PRIVATE:
            return usual(body)
        times[body["prompt"]] += 1
        return [b"?"] if times[body["prompt"]] < distill._ATTEMPTS else usual(body)

    server.answer = falter
    found, _ = vote(device, server, EXAMPLES[:16], PUBLIC, replace(WANTED, shots=4))
    assert found.plan.teachers == 4
    assert set(times.values()) == {distill._ATTEMPTS}


@pytest.mark.parametrize(
    ("examples", "public", "wanted", "match"),
    [
        (EXAMPLES, PUBLIC[:31], WANTED, "31 public texts are too few"),
        (EXAMPLES, PUBLIC, replace(WANTED, few=False), "240 examples are few"),
        (EXAMPLES, PUBLIC, replace(WANTED, epsilon=0.0), "positive"),
        (EXAMPLES, PUBLIC, replace(WANTED, delta=0.01), "single examples"),
        (EXAMPLES[::2], PUBLIC, WANTED, "the same label"),
        ([*EXAMPLES, agent.LabelledText(text="x")], PUBLIC, WANTED, "example 241: it has no label"),
        (
            [agent.LabelledText(text="a", label=label) for label in ("pos", "Positive") * 20],
            PUBLIC,
            WANTED,
            "begins another",
        ),
    ],
)
def test_what_cannot_be_voted_on_costs_nothing(
    device: Parts,
    server: Server,
    examples: Sequence[agent.LabelledText],
    public: Sequence[str],
    wanted: Wanted,
    match: str,
) -> None:
    spent = device.ledger.spending()
    with pytest.raises(SottovoceError, match=match):
        vote(device, server, examples, public, wanted)
    assert device.ledger.spending() == spent
    assert server.asked == []


def test_labels_are_told_apart_by_their_beginnings() -> None:
    with pytest.raises(InvalidInput, match="'pos' begins another"):
        distill._check_words(["pos", "neg", "positive"])
    distill._check_words(["positive", "negative", "neutral"])


def test_a_server_that_does_not_answer_costs_nothing(device: Parts, server: Server) -> None:
    spent = device.ledger.spending()
    server.status = 404
    with pytest.raises(NotFound):
        vote(device, server)
    assert device.ledger.spending() == spent
    assert prompts_of(server) == []
    assert under_way(device) == []


def test_a_prompt_that_the_model_refuses_names_no_label(device: Parts, server: Server) -> None:
    server.status = lambda body: 400 if len(shots(body["prompt"])) > 12 else 200
    found, told = vote(device, server)
    assert any(len(shots(prompt)) > 12 for prompt in prompts_of(server))
    assert found.answered == len(told) > 0


def test_votes_that_are_counted_again_are_paid_for_again(
    device: Parts, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, copies = distill.ask, []

    def copied(counts: Any, plan: Any) -> dict[int, int]:
        copies.extend((file, file.read_bytes()) for file in under_way(device))
        return usual(counts, plan)

    monkeypatch.setattr(distill, "ask", copied)
    vote(device, server)
    once = device.ledger.spending()
    assert (once.adapters_private, once.adapter_epsilon) == (1, 8.0)
    ((file, data),) = copies
    file.write_bytes(data)
    server.asked.clear()
    vote(device, server)
    assert prompts_of(server) == []
    again = device.ledger.spending()
    assert (again.adapters_private, again.adapter_epsilon) == (2, 16.0)


def test_another_address_of_the_server_goes_on(device: Parts, server: Server) -> None:
    usual = server.answer
    server.answer = lambda body: usual(body) if len(server.asked) < 300 else [b"gone"]
    with pytest.raises(Unavailable):
        vote(device, server)
    spent = device.ledger.spending()
    with few_shot_server() as other:
        vote(device, other)
        assert len(prompts_of(other)) < 24 * len(PUBLIC) - 200
    assert device.ledger.spending() == spent


def test_who_leaves_a_vote_that_was_paid_for_is_told(device: Parts, server: Server) -> None:
    usual = server.answer
    server.answer = lambda body: usual(body) if len(server.asked) < 300 else [b"gone"]
    with pytest.raises(Unavailable):
        vote(device, server)
    server.answer, warned = usual, []
    doing = distiller(device, server)
    doing.distill(EXAMPLES, PUBLIC, replace(WANTED, shots=8), list, warn=warned.append)
    assert [each for each in warned if "another vote was paid for" in each]


def test_calls_that_nobody_waits_for_are_cut(server: Server) -> None:
    usual, going, over = server.answer, threading.Semaphore(0), threading.Event()
    ended: list[dict[str, Any]] = []

    def status(body: dict[str, Any]) -> int:
        if "the fourth" in body["prompt"]:
            for _ in range(3):
                going.acquire(timeout=60)
            return 404
        return 200

    def stall(body: dict[str, Any]) -> Iterable[bytes]:
        going.release()
        over.wait(60)
        ended.append(body)
        return usual(body)

    server.status, server.answer = status, stall
    model = NextTokens(OpenAIClient(ChatConfig(upstream=server.url)), "m")
    asking = distill.Teachers(model, ["a", "b"], 16, 4)
    try:
        with pytest.raises(NotFound):
            asking.votes([("x", "a")], ["one", "two", "three", "the fourth", "five", "six"])
        assert not ended, "it waited for an answer"
    finally:
        over.set()
    assert len(server.asked) <= 5, "more was asked when nobody waited any more"
