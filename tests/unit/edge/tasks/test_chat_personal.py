"""Conversations under `personal`: an echo is exact, and a person is one person in all turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, opened
from tests.support.echo import EchoingCloud, echo, echoing_cloud, last_text

USER, ASSISTANT = generation.ROLE_USER, generation.ROLE_ASSISTANT


@pytest.fixture(scope="module")
def device(
    tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path
) -> Iterator[tuple[Parts, EchoingCloud]]:
    with echoing_cloud() as cloud:
        config = configured(
            tmp_path_factory.mktemp("device"),
            bundle=bundle_folder,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_PRIVACY_LEAST_POLICY="personal",
            SOTTO_CHAT_POLICY="personal",
        )
        with opened(config, None) as parts:
            yield parts, cloud


def shown(device: Parts, *turns: tuple[int, str]) -> str:
    request = chats.ChatRequest(
        turns=[chats.ChatTurn(role=role, text=text) for role, text in turns]
    )
    return "".join(event.delta_text for event in device.conversations.chat(request))


def left(cloud: EchoingCloud) -> list[str]:
    return [turn.released_text for turn in cloud.asked[-1].conversation.turns]


def test_a_given_name_and_a_surname_alone_come_back(device: tuple[Parts, EchoingCloud]) -> None:
    parts, cloud = device

    def answer(request: generation.GenerateRequest) -> Iterable[str]:
        given, family = last_text(request).removeprefix("My friend is ").split()
        yield f"{given} is right. Mr {family}"
        yield f" left **{given}**'s house; {given.upper()}, {family}"

    cloud.answer = answer
    said = "My friend is Tom Boyle"
    assert shown(parts, (USER, said)) == "Tom is right. Mr Boyle left **Tom**'s house; TOM, Boyle"


def test_a_person_is_one_person_in_all_turns(device: tuple[Parts, EchoingCloud]) -> None:
    parts, cloud = device
    cloud.answer = echo
    first = "Rose Quarnivel owes me money."
    assert shown(parts, (USER, first)) == first
    rose, family = left(cloud)[0].split()[:2]
    later = "What do I write to ROSE quarnivel, Ms Quarnivel, or R. Quarnivel?"
    assert shown(parts, (USER, first), (ASSISTANT, first), (USER, later)) == later
    assert left(cloud) == [
        *[f"{rose} {family} owes me money."] * 2,
        f"What do I write to {rose.upper()} {family.lower()}, Ms {family}, or {rose[0]}. {family}?",
    ]


def test_names_that_begin_a_sentence_come_back_under_names(
    device: tuple[Parts, EchoingCloud],
) -> None:
    parts, cloud = device
    cloud.answer = lambda request: [f"{last_text(request).split()[-2]} is right."]
    for number in range(16):
        request = chats.ChatRequest(
            turns=[chats.ChatTurn(role=USER, text="My friend is Tom Boyle")],
            privacy=agent.PrivacyOptions(policy="names"),
            conversation=str(number),
        )
        answer = "".join(event.delta_text for event in parts.conversations.chat(request))
        assert answer == "Tom is right."


def test_a_value_is_hidden_again_in_later_turns(device: tuple[Parts, EchoingCloud]) -> None:
    parts, cloud = device
    cloud.answer = lambda request: ["Ok"]
    first = (USER, "The gate code is 4821.")
    shown(parts, first)
    drawn = left(cloud)[0].split()[-1]
    later = (USER, "4821 does not open it. Is 4821 prime?")
    shown(parts, first, (ASSISTANT, "Ok"), later)
    assert left(cloud)[-1] == later[1].replace("4821", drawn.strip("."))
    shown(parts, first, (ASSISTANT, "No results for 4821 steps"), (USER, "Go on"))
    assert "4821" not in " ".join(left(cloud))


def test_a_turn_that_left_does_not_change_when_its_value_is_private_later(
    device: tuple[Parts, EchoingCloud],
) -> None:
    parts, cloud = device
    cloud.answer = lambda request: ["Ok"]
    turns = [(USER, "I took 5550143 steps."), (ASSISTANT, "Ok"), (USER, "My account is 5550143")]
    for _ in range(2):
        shown(parts, *turns)
        assert left(cloud)[0] == "I took 5550143 steps."
        assert "5550143" not in left(cloud)[-1]


@pytest.mark.parametrize("sent", ["{} steps", "{} steps\nMore", " {} steps \n\nMore "])
def test_a_stripped_answer_leaves_as_it_came(device: tuple[Parts, EchoingCloud], sent: str) -> None:
    parts, cloud = device
    first = (USER, f"My badge is 5550144 for {len(sent)} doors")
    shown(parts, first)
    drawn = left(cloud)[0].split()[3]
    cloud.answer = lambda request: [came]
    came = sent.format(drawn).replace("\n", " \n") + " \n"
    answer = shown(parts, first)
    stripped = "\n".join(map(str.strip, answer.strip().splitlines()))
    shown(parts, first, (ASSISTANT, stripped), (USER, "Go on"))
    assert left(cloud)[1] == came


def test_an_answer_to_a_question_is_read_with_it(device: tuple[Parts, EchoingCloud]) -> None:
    parts, cloud = device
    cloud.answer = lambda request: ["Ok"]
    opening = (USER, "I cannot log in"), (ASSISTANT, "What is your PIN?")
    shown(parts, *opening, (USER, "4826"), (ASSISTANT, "Ok"), (USER, "4826 fails"))
    *_, answer, _, later = left(cloud)
    assert answer != "4826"
    assert later == f"{answer} fails"
    shown(parts, (USER, "How many?"), (ASSISTANT, "How many do you want?"), (USER, "4826"))
    assert left(cloud)[-1] == "4826"
