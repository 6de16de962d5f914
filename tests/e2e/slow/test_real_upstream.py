"""A foreign OpenAI server answers conversations and votes. SOTTO_TEST_UPSTREAM names it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli import main
from sottovoce.edge.client.generation import OpenAIWriter
from sottovoce.edge.client.openai_client import NextTokens, OpenAIClient
from sottovoce.edge.config import ChatConfig
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, opened

UPSTREAM = os.environ.get("SOTTO_TEST_UPSTREAM", "")
pytestmark = pytest.mark.skipif(
    not UPSTREAM, reason="set SOTTO_TEST_UPSTREAM to the address of a server, http://.../v1"
)
ASKED = "Anna Miller of Springfield called. Answer her in one sentence."


@pytest.fixture
def device(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Parts]:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CHAT_UPSTREAM=UPSTREAM)
    with opened(config, lexicon_tagger) as running:
        yield running


def asked(device: Parts, **sampling: Any) -> tuple[chats.Departed, str, chats.Answered]:
    request = chats.ChatRequest(
        turns=[chats.ChatTurn(role=generation.ROLE_USER, text=ASKED)],
        sampling=chats.Sampling(max_tokens=24, temperature=0, seed=1, **sampling),
    )
    first, *deltas, last = device.conversations.chat(request)
    return first.departed, "".join(delta.delta_text for delta in deltas), last.answered


def test_a_conversation_is_answered_in_pieces(device: Parts) -> None:
    departed, text, answered = asked(device)
    (turn,) = departed.turns
    assert "Miller" not in turn.released_text
    assert text.strip()
    assert answered.came.strip()
    assert answered.finish_reason in (
        generation.FINISH_REASON_STOP,
        generation.FINISH_REASON_LENGTH,
    )
    assert 0 < answered.completion_tokens <= 24


def test_its_models_are_listed() -> None:
    assert OpenAIWriter(ChatConfig(upstream=UPSTREAM)).models()


def test_an_answer_that_nobody_waits_for_is_ended(device: Parts) -> None:
    request = chats.ChatRequest(
        turns=[chats.ChatTurn(role=generation.ROLE_USER, text=ASKED)],
        sampling=chats.Sampling(max_tokens=4_000, temperature=1),
    )
    answer = device.conversations.chat(request)
    assert len([*itertools.islice(answer, 2)]) == 2
    answer.close()
    assert asked(device)[1].strip(), "the next one had to wait for it"


def test_it_says_how_likely_tokens_are() -> None:
    prompt = "Text: fine\nLabel: good\n\nText: awful\nLabel: bad\n\nText: lovely\nLabel:"
    model = OpenAIWriter(ChatConfig(upstream=UPSTREAM)).models()[0]
    tokens = NextTokens(OpenAIClient(ChatConfig(upstream=UPSTREAM)), model).after(prompt)
    assert len(tokens) >= 5
    assert max(tokens.values()) <= 0
    assert {"good", "bad"} & {token.strip() for token in tokens}


def test_prompts_teach(tmp_path: Path, bundle_folder: Path) -> None:
    configured(tmp_path, bundle=bundle_folder)
    kinds = {"good": "what a lovely, moving film", "bad": "what an awful, boring mess"}
    rows = [f"{text} number {n}\t{label}" for n in range(30) for label, text in kinds.items()]
    private, public, output = (tmp_path / name for name in ("rows.tsv", "public.txt", "out.tsv"))
    private.write_text("\n".join(["text\tlabel", *rows]))
    public.write_text("\n".join(f"{text}, take {n}" for n in range(16) for text in kinds.values()))
    arguments = ["distill", "--input", private, "--public", public, "--output", output]
    arguments += ["--dp-epsilon", 50, "--dp-few-examples", "--shots", 30, "--texts", 32]
    environment = {
        "HOME": str(tmp_path / "home"),
        "SOTTO_AGENT_LISTEN": f"unix:{tmp_path / 'agent.sock'}",
        "SOTTO_CHAT_UPSTREAM": UPSTREAM,
    }
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"], env=environment)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["teachers"], told["texts"]) == (2, 32)
    answers = [line.split("\t") for line in output.read_text().splitlines()[1:]]
    assert len(answers) == told["answered"]
    right = sum(("lovely" in text) == (label == "good") for text, label in answers)
    assert right > len(answers) / 2
