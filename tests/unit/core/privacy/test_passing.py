"""Greetings, famous titles and commands pass under `personal`; names beside them do not."""

from __future__ import annotations

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from tests.support.paths import ROOT

KEY = Key(b"passing".ljust(32))
BUNDLE = ROOT / "build" / "bundle"

pytestmark = pytest.mark.skipif(not BUNDLE.is_dir(), reason="needs a bundle: make bundle")


@pytest.fixture(scope="module")
def privatizer() -> Privatizer:
    return Privatizer.of(Bundle.open(BUNDLE), floors=PrivacyLimits(least_policy="personal"))


def _released(privatizer: Privatizer, text: str) -> str:
    return privatizer.release(text, Setting(policy="personal"), key=KEY).text


@pytest.mark.parametrize(
    "text",
    [
        "Guten Morgen! Was ist der Unterschied zwischen Docker und Podman?",
        "Guten Abend zusammen, ich habe eine Frage zu Excel.",
        "Buenos días, necesito ayuda con Kubernetes.",
        "Pls fix this Python code.",
        "Thx, that worked. Btw is there a faster way?",
        "My mother has Alzheimer's. What should I ask the doctor?",
        "Does Zoom work with Slack and Outlook?",
        "Der Vermieter schickt die Rechnung mit dem Paket.",
        "meine wohnung ist zu klein",
    ],
)
def test_what_names_nobody_leaves_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Guten Morgen Frau Krause, danke für die Post.", "Krause"),
        ("Guten Morgen, Lena!", "Lena"),
        ("Thx Dana, see you Friday", "Dana"),
        ("Grant Wilson is my landlord.", "Grant"),
        ("Grant said that he paid.", "Grant"),
        ("Grant the landlord asked me.", "Grant"),
        ("Bill 07700 900123", "Bill"),
        ("Frank replied to my landlord yesterday.", "Frank"),
        ("My boss is Hamlet Petrosyan.", "Hamlet"),
        ("Name: Bill", "Bill"),
    ],
)
def test_a_person_beside_them_is_drawn(privatizer: Privatizer, text: str, private: str) -> None:
    assert private not in _released(privatizer, text)
