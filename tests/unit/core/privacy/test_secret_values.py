"""Secrets that people write after a label, with and without a separator, under `personal`."""

from __future__ import annotations

import re

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.secret_values import seed_phrases
from sottovoce.core.text.words import split


def released(privatizer: Privatizer, text: str) -> str:
    key = Key(b"secrets".ljust(32))
    return privatizer.release(text, Setting(policy="personal"), key=key).text


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("set PASSWORD sunflower", ["sunflower"]),
        ("my password is tigerlily", ["tigerlily"]),
        ("my password is correct horse battery staple", ["correct", "horse", "battery", "staple"]),
        ("use pw swordfish99 for the router", ["swordfish99"]),
        ("the netflix pw is Sausage!dog", ["Sausage", "dog"]),
        ("The PIN 4711 no longer works.", ["4711"]),
        ("my mums pin is 4096", ["4096"]),
        ("passcode 883311", ["883311"]),
        ('ssh with password "monkeys-eat-9" fails', ["monkeys", "9"]),
        ("ALTER USER bob PASSWORD 'winter rose';", ["winter", "rose"]),
        ("change my password to bluebird22", ["bluebird22"]),
        ("the pass is marmalade77", ["marmalade77"]),
        ("gate code 5519#", ["5519"]),
        ("The alarm code is 9931.", ["9931"]),
        ("log in with jo.flint@mail.example / Pebble$22", ["Pebble", "22"]),
        ("session=7f3a9c1e expired", ["7f3a9c1e"]),
        ("IBAN GB29 NWBK 6016 1331 9268 19", ["GB29", "NWBK", "6016", "9268"]),
        ("my card ending in 4471", ["4471"]),
        ("host=ip-10-2-33-8 is down", ["10-2-33-8"]),
        ("her driving licence, e2933037, runs out", ["e2933037"]),
        ("it says B6557855, and below 1907947d", ["B6557855", "1907947d"]),
        ("key safe 0912, keysafe: 0913, lockbox: 4471", ["0912", "0913", "4471"]),
        ("the alarm is 9204. Keypad = 2290, key box: C2291Y", ["9204", "2290", "C2291Y"]),
        ("front door 4471#, gate: 2290", ["4471", "2290"]),
        ("invalid token: abx9912k", ["abx9912k"]),
        ("It says unexpected token: sunny22", ["sunny22"]),
        ("First pet: Biscuit, memorable place: pier", ["Biscuit", "pier"]),
    ],
)
def test_a_labelled_secret_or_number_is_drawn(
    privatizer: Privatizer, text: str, secrets: list[str]
) -> None:
    left = released(privatizer, text)
    assert [secret for secret in secrets if secret in left] == []


@pytest.mark.parametrize(
    "text",
    [
        "My password is wrong. The password is not accepted.",
        "Is the password stored in plain text?",
        "How does password hashing work? Write a password generator.",
        "The passphrase must be long. The passphrase protects the key. My passphrase prompt hangs.",
        "My first car was great and my first pet is a dog.",
        "ssh passphrase caching agent, gpg passphrase entropy, find wifi password android phone",
        "wifi password sharing feature, what is the wifi password policy, forgot wifi password pc",
        "The secret ingredient is love. The secret is to keep calm.",
        "The limit is max token 4096 and my bus pass is expired.",
        "It fails with error code 404 and status code 500.",
        "Pass 12 arguments to the function.",
        "The fiscal year ending in 2024 was good.",
        "Set the colour to #7f3a9c and the size=1200px.",
        "Is 1a2b3c4d or #7f3a9c80 a valid colour?",
        "SyntaxError: Unexpected token '<' in JSON",
        "syntax error near unexpected token `done'",
    ],
)
def test_talk_about_secrets_passes(privatizer: Privatizer, text: str) -> None:
    assert released(privatizer, text) == text


PHRASE = "hill rice tent solve acid busy lion clap fold hazard until easy"
WORDS = PHRASE.split()


def found(text: str) -> list[str]:
    words = split(text, ())
    places = seed_phrases(words, [word.text.lower() for word in words])
    return [words[place].text for place in places]


@pytest.mark.parametrize(
    "text",
    [
        PHRASE,
        f"Here it is: {PHRASE}. Did I lose it?",
        f"My seed phrase is {PHRASE}",
        f"recovery phrase {PHRASE}",
        ", ".join(WORDS),
        "\n".join(WORDS),
        "-".join(WORDS),
        str(WORDS),
        " ".join(f"{number}. {word}" for number, word in enumerate(WORDS, 1)),
        "\n".join(f"{number}) {word}" for number, word in enumerate(WORDS, 1)),
    ],
)
def test_a_phrase_is_found_in_every_layout(text: str) -> None:
    assert found(text) == WORDS


def test_a_phrase_is_found_in_every_case() -> None:
    assert found(PHRASE.upper()) == PHRASE.upper().split()
    assert found(PHRASE.title()) == PHRASE.title().split()


@pytest.mark.parametrize("count", [12, 15, 18, 21, 24])
def test_every_length_is_found(count: int) -> None:
    words = (WORDS * 2)[:count]
    assert found(f"seed phrase: {' '.join(words)}") == words


def test_words_of_another_list_count_after_a_label() -> None:
    other = "gnomes umpire vexed zinger abducts biggest coexist dusted eluded foxes gusts hubcaps"
    assert found(f"My wallet's recovery words: {other}") == other.split()
    assert not found(f"Sort these: {other}")


@pytest.mark.parametrize(
    "text",
    [
        " ".join(WORDS[:11]),
        "Click Save, then open File, Print, Page Setup, choose Paper Size, press Next, wait.",
        "What is a seed phrase and how many words does a recovery phrase have?",
        "The quick brown fox jumps over the lazy dog and then runs away fast.",
    ],
)
def test_sentences_and_shorter_lists_pass(text: str) -> None:
    assert not found(text)


@pytest.mark.parametrize(
    "text",
    ["my passphrase is 7seas and blue horses run", "the password is blue42 and 7 green gates"],
)
def test_a_secret_of_words_is_drawn_whole_though_it_has_digits(
    privatizer: Privatizer, text: str
) -> None:
    secret = {*text.split(" is ")[1].split()}
    assert not secret & {*released(privatizer, text).split()}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("The passphrase three goats dancing opens the vault.", "three goats dancing"),
        ("wifi password goats dancing", "goats dancing"),
        ("guest wi-fi password purple monkey dishwasher, ok?", "purple monkey dishwasher"),
    ],
)
def test_a_phrase_without_a_separator_is_drawn(
    privatizer: Privatizer, text: str, secret: str
) -> None:
    assert not {*secret.split()} & {*re.findall(r"\w+", released(privatizer, text))}


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (
            "The password is sunny22. Please explain how I change it.",
            " Please explain how I change",
        ),
        ("password: sunny22. Explain it in two sentences", " Explain it in two sentences"),
        ("My PIN is 4821. The sea is blue", " The sea is blue"),
        (
            "wifi password: sunny22, please tell me how to change it",
            " please tell me how to change",
        ),
        ("The password is sunny22 and it does not work any more", " and it does not work any more"),
        ("My PIN is 4821 at the machine in town", " at the machine in town"),
    ],
)
def test_a_sentence_after_a_value_with_digits_passes(
    privatizer: Privatizer, text: str, rest: str
) -> None:
    left = released(privatizer, text)
    assert rest in left
    assert "sunny22" not in left
    assert "4821" not in left


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("The PIN is 4821 for the front and 5932 for the back", ["4821", "5932"]),
        ("the password is sunny22 and the other is quarnivelle", ["sunny22", "quarnivelle"]),
        ("the password is blue garden 7 and gate 9", ["blue", "garden", "gate", "9"]),
        ("password: sunny22, rose in the garden", ["sunny22", "rose", "garden"]),
        ('the password is "blue7. gate, and 9 roses"', ["blue7", "gate", "roses"]),
        ("password: sunny22. winter33", ["sunny22", "winter33"]),
    ],
)
def test_a_value_goes_on_after_a_word_with_digits(
    privatizer: Privatizer, text: str, secrets: list[str]
) -> None:
    left = released(privatizer, text)
    assert [secret for secret in secrets if secret in left] == []


def test_the_closing_tag_of_a_secret_passes_and_so_does_the_rest(privatizer: Privatizer) -> None:
    left = released(privatizer, "<password>hunter2</password> and <port>80</port>")
    assert "hunter2" not in left
    assert left.endswith("</password> and <port>80</port>")
