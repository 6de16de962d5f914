"""The policy `personal` on given names that are words too, by what people say around them."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer

PERSONAL = Setting(policy="personal")
KEY = Key(b"talk".ljust(32))


def _drawn(privatizer: Privatizer, text: str) -> list[str]:
    """The words that are drawn."""
    release = privatizer.release(text, PERSONAL, key=KEY)
    return [text[word.start : word.end] for word in release.each_word() if word.protected]


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("hi there its precious here", "precious"),
        ("hey this is storm, my number changed", "storm"),
        ("tell hope to ring and ask grant about it", "hope grant"),
        ("please let cedar know", "cedar"),
        ("1) Rain (wife) 2) Bliss (my sister) 3) Sage (she/they)", "Rain Bliss Sage"),
        ("Summer wrote: hello. May said no.", "Summer May"),
        ("ok so basically fern told poppy that", "fern poppy"),
        ("Bed 3 Faith, Rm 12 Violet - fell", "Faith Violet"),
        ("Lend it to my cousin Sparky or her sister Temperance.", "Sparky Temperance"),
        ("Gift Moyo is here. Gift starts Monday.", "Gift Moyo Gift"),
        ("My horse Ferrari limps, our dog Pixel is ill.", "Ferrari Pixel"),
    ],
)
def test_what_people_say_tells_a_name(privatizer: Privatizer, text: str, private: str) -> None:
    assert _drawn(privatizer, text) == private.split()


@pytest.mark.parametrize(
    "text",
    [
        "hey this is great, hi its urgent, hey its late, hello its me",
        "the ask price to rise, tell people to go, ask questions about it, tell tales",
        "the price said so, Bed 4 Meeting, Bed 2 Empty, Rm 3 List",
        "my friend American English, my wife Tuesday, my brother iPhone, Lion (father of x",
        "My brother Minecraft server, my boss Monday morning",
        "MY FRIEND ALSO SAID NO. IT IS LATE.",
        "My wife Will you marry me, my sister And I, my daughter Year 6, ask will it rain",
        "let people know, let staff know, let users know, let me know",
        "Mobile (wife), Contact (mum), Home (dad), Function (f), Name (son)",
        "The bill said no. A case of gift starts here.",
    ],
)
def test_other_talk_leaves_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _drawn(privatizer, text) == []
