"""Values of calls and schemas under `personal`: their keys decide, as in a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import Restoration
from sottovoce.core.privacy.surrogate_table import observe
from sottovoce.edge.tasks.functions import Functions, Returning
from sottovoce.v1 import edge_chat_pb2 as chats

KEY = Key(b"functions".ljust(32))
PRIVATE = {
    "house_number": "12",
    "postcode": "4051",
    "pin": 4821,
    "pins": {"pin": [7310, 9964]},
    "birthday": "4/3",
    "wifi_password": "blue garden gate",
    "username": "will",
    "nationality": "Polish",
    "phone": "0171 555",
    "booking": "K2XB4T",
    "card_cvc": "123",
    "lat": 51.38,
    "lon": -2.36,
    "account": 5550142,
    "door_code": 7342,
    "user": {"surname": "Fish", "next_of_kin": ["Long", "Rose"]},
    "notes": "Name,Phone\nRose Long,0171 555\nCall the school",
}


class _Device:
    """Releases as a conversation does."""

    def __init__(self, bundle: Bundle) -> None:
        self._privatizer = Privatizer.of(bundle, floors=PrivacyLimits(least_policy="personal"))
        self._owners: dict[str, tuple[str, str]] = {}
        self._seen: dict[str, Release] = {}
        self.functions = Functions(lambda text: self.read(text).text, self.read)

    def read(self, text: str) -> Release:
        if text not in self._seen:
            setting = Setting(policy="personal")
            self._seen[text] = self._privatizer.release(
                text, setting, key=KEY, session="s", owners=self._owners
            )
        return self._seen[text]

    def left(self, arguments: Any) -> Any:
        call = chats.ToolCall(id="1", name="f", arguments=json.dumps(arguments))
        return json.loads(self.functions.call(call).released_arguments)

    def back(self) -> Returning:
        places = observe(self._seen.values())
        said = [release.text for release in self._seen.values()]
        return self.functions.back(places, Restoration(places, said=said))


@pytest.fixture
def device(bundle: Bundle) -> _Device:
    return _Device(bundle)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [leaf for each in inner for leaf in leaves(each)]
    return [value]


def test_what_a_key_tells_is_drawn_in_arguments_and_comes_back(device: _Device) -> None:
    left = device.left(PRIVATE)
    *true, notes = leaves(PRIVATE)
    *drawn, table = leaves(left)
    assert [one for one, other in zip(true, drawn, strict=True) if one == other] == []
    assert [*map(type, true)] == [*map(type, drawn)]
    assert not {"Rose", "Long", "0171", "555"} & {*table.replace(",", " ").split()}
    assert table.endswith("\nCall the school")
    assert notes.count("\n") == table.count("\n")
    assert json.loads(device.back().arguments("f", json.dumps(left))) == PRIVATE


def test_keys_that_tell_what_a_value_is_leave_as_they_are(device: _Device) -> None:
    assert [*device.left(PRIVATE)] == [*PRIVATE]
    assert [*device.left({"pin_4821": 1, "notify_zelphira": 2})] != ["pin_4821", "notify_zelphira"]


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("pin", {"const": 4821}),
        ("surname", {"enum": ["Fish", "Long"]}),
        ("password", {"type": "string", "examples": ["blue gate"], "default": "hunter"}),
        ("door_code", {"anyOf": [{"const": 4821}, {"type": "array", "items": {"enum": [7342]}}]}),
    ],
)
def test_what_a_key_tells_is_drawn_in_schemas(device: _Device, key: str, part: Any) -> None:
    schema = {"type": "object", "properties": {key: part}}
    tool = chats.ChatTool(name="f", parameters=json.dumps(schema))
    left = device.functions.definition(tool).released_parameters
    assert [*json.loads(left)["properties"]] == [key]
    words = {"Fish", "Long", "hunter", "blue", "gate", "4821", "7342"}
    assert not [word for word in words if word in left]


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "how do I sort a list", "per_page": 50, "sort": "created", "state": "open"},
        {"path": "src/app/main.py", "content": "import os\n\n\ndef main():\n    print(1)\n"},
        {"population": 1234567, "shares": 15000, "price": 189.25, "currency": "USD"},
        {"subject": "Team lunch", "body": "Lunch is at noon.", "color": "steelblue", "cvc": True},
    ],
)
def test_other_values_pass(device: _Device, arguments: Any) -> None:
    assert device.left(arguments) == arguments


@pytest.mark.parametrize("number", [5550142, 31926819, 2025550142, 442071234567, 98765, 10**24])
def test_a_number_comes_back_wherever_it_was(device: _Device, number: int) -> None:
    left = device.left({"account": number})["account"]
    assert (type(left), len(str(left))) == (int, len(str(number)))
    assert left != number
    assert device.back().arguments("f", json.dumps({"n": left})) == json.dumps({"n": number})


def test_a_number_of_a_text_comes_back_without_its_zeros(device: _Device) -> None:
    called = int("".join(filter(str.isdigit, device.read("Call 02079 460123 today").text)))
    assert device.back().arguments("f", json.dumps({"n": called})) == '{"n": 2079460123}'
