"""Secrets and numbers that were drawn once are drawn again, in any context."""

from __future__ import annotations

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.hiding import Hiding
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.surrogates.surrogate import Owners


def released(privatizer: Privatizer, text: str, owners: Owners | None = None) -> str:
    key, setting = Key(b"values".ljust(32)), Setting(policy="personal")
    return privatizer.release(text, setting, key=key, session="one", owners=owners).text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("My PIN is 4821\nI typed 4821 at the machine.", "4821"),
        ("In 4821 cases it failed. My PIN is 4821", "4821"),
        ("password: sunshine22\nI tried sunshine22 twice, and Sunshine22.", "unshine22"),
        ("booking code K2XB4T\nThey say K2XB4T is unknown.", "K2XB4T"),
        ("My account is 5550142. Is 5550142 prime? EUR 5550142", "5550142"),
        ("My account is 5550142. I took 5550142 steps, or $5550142.", "5550142"),
        ("My account is 5550142. I took 5,550,142 steps", "5,550,142"),
        ("Call 0171 555 0142.\nGuest A B C\nNadia 0171 555 0142", "555 0142"),
        ("The gate code is 4821. See x/4821 and #4821", "4821"),
        ("log in with jo.flint@mail.example / Pebble$22\nPebble$22 is wrong", "Pebble"),
        ("password: zyxmoonq\nIs zyxmoonq or ZYXMOONQ a word?", "zyxmoonq"),
    ],
)
def test_a_drawn_value_is_drawn_again(privatizer: Privatizer, text: str, value: str) -> None:
    assert value.lower() not in released(privatizer, text).lower()


@pytest.mark.parametrize(
    "rest",
    [
        "We sold 4,821 tickets for 48.21 each, 4821.50 in all, and 48 21.",
        "The winter is cold, and a rose is red.",
        "In 2024 I took 12011 steps.",
    ],
)
def test_other_numbers_and_public_words_pass(privatizer: Privatizer, rest: str) -> None:
    first = "My PIN is 4821\nMy password is winter rose\n"
    assert released(privatizer, first + rest).endswith("\n" + rest)


def test_a_value_is_drawn_again_in_later_texts(privatizer: Privatizer) -> None:
    owners: Owners = {}
    first = released(privatizer, "My account is 5550142", owners)
    drawn = first.rpartition(" ")[2]
    later = "Is 5550142 prime? I took 5550142 steps."
    assert released(privatizer, later, owners) == later.replace("5550142", drawn)


def test_a_value_is_drawn_again_in_all_windows_of_a_text(privatizer: Privatizer) -> None:
    text = "\n".join(
        ["I took 5550142 steps.", *["The rain is warm."] * 500, "My account is 5550142"]
    )
    left = released(privatizer, text)
    assert "5550142" not in left
    assert left.count("The rain is warm.") == 500


def test_an_allowed_value_passes(bundle: Bundle) -> None:
    limits, hiding = PrivacyLimits(least_policy="personal"), Hiding.of(allow=["5550142"])
    allowing = Privatizer.of(bundle, floors=limits, hiding=hiding)
    text = "My account is 5550142. I took 5550142 steps."
    assert released(allowing, text) == text


def test_a_conversation_notes_a_bounded_number_of_values(privatizer: Privatizer) -> None:
    owners: Owners = {}
    for part in range(2):
        rows = "\n".join(f"account {5550000 + 700 * part + row}" for row in range(700))
        released(privatizer, rows, owners)
    assert sum(key.startswith("\0") for key in owners) == 1024
