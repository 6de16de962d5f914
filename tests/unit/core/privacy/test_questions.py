"""An answer is private if its question asked for something private."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.questions import asked_for


def released(privatizer: Privatizer, question: str, answer: str) -> str:
    key, setting = Key(b"questions".ljust(32)), Setting(policy="personal")
    return privatizer.release(answer, setting, key=key, asked=asked_for(question)).text


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Thanks. What is your surname?", "surname"),
        ("What's your **PIN**?", "pin"),
        ("Could you tell me your account number, please?", "account number"),
        ("Please enter your Wi-Fi password:", "password"),
        ("May I have your full name?", "full name"),
        ("Your name is nice.", ""),
        ("Did you change your password?", ""),
        ("What is your password? Never tell me. I go on.", ""),
        ("What is your favourite colour?", ""),
        ("", ""),
    ],
)
def test_a_question_asks_for_a_value(text: str, asked: str) -> None:
    assert asked_for(text) == asked


@pytest.mark.parametrize(
    ("question", "answer", "values"),
    [
        ("What is your password?", "moongarden22", ["moongarden22"]),
        ("What is your password?", "it is blue gate", ["blue", "gate"]),
        ("What is your password?", "I forgot, maybe moongarden22", ["moongarden22"]),
        ("What is your PIN?", "It's 4821.", ["4821"]),
        ("What is your surname?", "Fish", ["Fish"]),
        ("What is your surname?", "yes, it's fish", ["fish"]),
        ("Please tell me your full name.", "Rose Long", ["Rose", "Long"]),
        ("What is your postcode?", "4051", ["4051"]),
        ("What is your account number?", "55 501", ["501"]),
    ],
)
def test_an_answer_is_drawn(
    privatizer: Privatizer, question: str, answer: str, values: list[str]
) -> None:
    left = released(privatizer, question, answer)
    assert [value for value in values if value in left] == []


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know",
        "No",
        "why?",
        "Sure!",
        "Not telling you",
        "Is that needed?",
        "I forgot it",
        "It is the same",
        "How do I change it on the router, and what is a strong one?",
    ],
)
def test_what_is_no_answer_passes(privatizer: Privatizer, answer: str) -> None:
    assert released(privatizer, "What is your password?", answer) == answer
    assert released(privatizer, "What is your name?", answer) == answer
