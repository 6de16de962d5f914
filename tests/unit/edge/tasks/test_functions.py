"""The JSON of functions keeps its shape, its text is privatised and restored."""

from __future__ import annotations

import itertools
import json
import string
from typing import Any

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.restoration import Restoration
from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.edge.tasks.functions import Functions, canonical
from sottovoce.v1 import edge_chat_pb2 as chats
from tests.support.addresses import ADDRESSES

SURROGATES = {"anna": "mara", "Anna": "Mara", "68042": "01873", "12.5": "47.1", "7": "3"}


def release(text: str) -> str:
    """As the rest of a device does, for a few words."""
    return " ".join(SURROGATES.get(word, word) for word in text.split(" "))


@pytest.fixture
def functions() -> Functions:
    return Functions(release)


def schema(**fields: Any) -> str:
    return json.dumps({"type": "object", **fields})


def parameters(functions: Functions, **fields: Any) -> Any:
    tool = chats.ChatTool(name="f", parameters=schema(**fields))
    return json.loads(functions.definition(tool).released_parameters)


@pytest.mark.parametrize(
    ("name", "released"),
    [
        ("get_weather", "get_weather"),
        ("getWeather", "getWeather"),
        ("HTTPServer2", "HTTPServer2"),
        ("notify_anna", "notify_mara"),
        ("notifyAnna", "notifyMara"),
        ("ask-anna-7", "ask-mara-3"),
        ("first name", "first_name"),
        ("näme", "n_me"),
        ("___", "___"),
    ],
)
def test_a_name_is_released_word_by_word_and_comes_back(
    functions: Functions, name: str, released: str
) -> None:
    assert functions.name(name) == released
    assert functions.back([], Restoration([])).name(released) == name


@pytest.mark.parametrize(
    "name", ["rose.sales@acme.com", "+44 20 7946 0958", "AB12CD34", "order_6804217", "rose$sales"]
)
def test_a_name_that_falls_into_no_words_is_released_whole(name: str) -> None:
    texts: list[str] = []

    def drawn(text: str) -> str:
        texts.append(text)
        return "mara@pond.example"

    functions = Functions(drawn)
    released = functions.call(chats.ToolCall(name="f", arguments=json.dumps({name: None})))
    assert json.loads(released.released_arguments) == {"mara_pond_example": None}
    assert texts[0] == name
    assert functions.back([], Restoration([])).name("mara_pond_example") == name


def test_many_names_that_would_become_one_are_numbered() -> None:
    functions = Functions(lambda text: "x")
    names = [f"{a}{b}" for a in string.ascii_letters for b in string.ascii_letters]
    numbered = [f"x_{n}" for n in range(2, len(names) + 1)]
    assert [functions.name(name) for name in names] == ["x", *numbered]
    assert functions.name("x_2") == "x_2705"


def test_names_without_words_count_as_well(functions: Functions) -> None:
    names = map("".join, itertools.product("_-", repeat=14))
    with pytest.raises(InvalidInput):
        functions.call(chats.ToolCall(name="f", arguments=json.dumps(dict.fromkeys(names))))


def test_no_two_names_become_one(functions: Functions) -> None:
    assert functions.name("ask_mara") == "ask_mara"
    assert functions.name("ask_anna") == "ask_mara_2"
    assert functions.name("ask_mara") == "ask_mara"
    back = functions.back([], Restoration([]))
    assert (back.name("ask_mara"), back.name("ask_mara_2")) == ("ask_mara", "ask_anna")


def test_a_schema_keeps_its_shape(functions: Functions) -> None:
    found = parameters(
        functions,
        title="For anna",
        description="who is anna",
        properties={
            "anna_id": {"type": ["integer", "null"], "minimum": 68042, "default": 68042},
            "size": {"enum": ["anna", 7, None, True], "pattern": "anna"},
            "more": {"anyOf": [{"$ref": "#/$defs/Anna"}, {"type": "null"}]},
        },
        required=["anna_id"],
        additionalProperties=False,
        **{"$defs": {"Anna": {"type": "array", "items": {"type": "string"}, "maxItems": 7}}},
    )
    assert found == {
        "type": "object",
        "title": "For mara",
        "description": "who is mara",
        "properties": {
            "mara_id": {"type": ["integer", "null"], "default": 1873},
            "size": {"enum": ["mara", 3, None, True]},
            "more": {"anyOf": [{"$ref": "#/$defs/Mara"}, {"type": "null"}]},
        },
        "required": ["mara_id"],
        "additionalProperties": False,
        "$defs": {"Mara": {"type": "array", "items": {"type": "string"}}},
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"surprise": "anna"},
        {"patternProperties": {}},
        {"type": "anna"},
        {"type": {"anna": 1}},
        {"description": 7},
        {"required": "anna"},
        {"properties": ["anna"]},
        {"items": "anna"},
        {"$ref": "https://example.org/anna"},
        {"nullable": "anna"},
        {"anyOf": {"anna": 1}},
    ],
)
def test_what_is_not_known_of_a_schema_is_refused(
    functions: Functions, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parameters(functions, **fields)
    assert "anna" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "ann\u00e4"])
def test_what_is_no_name_of_a_function_is_refused(functions: Functions, name: str) -> None:
    with pytest.raises(InvalidInput):
        functions.definition(chats.ChatTool(name=name))


@pytest.mark.parametrize("text", ["[]", "5", "{", '{"a": NaN}', "[" * 2_000])
def test_parameters_that_are_no_schema_are_refused(functions: Functions, text: str) -> None:
    with pytest.raises(InvalidInput):
        functions.definition(chats.ChatTool(name="f", parameters=text))


def test_json_that_is_too_deep_or_has_too_much_in_it_is_refused(functions: Functions) -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    for arguments in (deep, ["x"] * 10_000):
        with pytest.raises(InvalidInput):
            functions.call(chats.ToolCall(id="1", name="f", arguments=json.dumps(arguments)))


def test_arguments_leave_leaf_by_leaf_and_come_back(functions: Functions) -> None:
    arguments = {"who": "Anna", "anna": [68042, 12.5, True, None], "far": {"note": "ask Anna"}}
    left = functions.call(chats.ToolCall(id="x", name="f", arguments=json.dumps(arguments)))
    assert json.loads(left.released_arguments) == {
        "who": "Mara",
        "mara": [1873, 47.1, True, None],
        "far": {"note": "ask Mara"},
    }
    place = Place("Mara", "Anna", "FIRST")
    back = functions.back([place], Restoration([place]))
    echoed = json.loads(back.arguments("f", left.released_arguments))
    assert echoed["who"] == "Anna"
    assert echoed["far"] == {"note": "ask Anna"}
    assert echoed["anna"][1:] == [12.5, True, None]


def test_a_value_that_is_a_surrogate_and_nothing_else_needs_no_neighbours(
    functions: Functions,
) -> None:
    places = [Place("3", "7", "NUMBER", before="for", after="nights")]
    back = functions.back(places, Restoration(places))
    assert json.loads(back.arguments("f", '{"nights": 3, "text": "3 of them"}')) == {
        "nights": 7,
        "text": "3 of them",
    }
    assert back.restored == {("3", "7"): 1}
    two = [*places, Place("3", "9", "NUMBER", before="on", after="beds")]
    assert json.loads(functions.back(two, Restoration(two)).arguments("f", '{"n": 3}')) == {"n": 3}


def test_arguments_that_are_no_json_are_a_text(functions: Functions) -> None:
    left = functions.call(chats.ToolCall(id="x", name="f", arguments="{ Anna"))
    assert left.released_arguments == "{ Mara"
    place = Place("Mara", "Anna", "FIRST")
    assert functions.back([place], Restoration([place])).arguments("f", "{ Mara") == "{ Anna"


def test_half_a_surrogate_pair_in_an_escape_is_replaced(functions: Functions) -> None:
    written = '{"who": "Anna \\ud83d", "\\uDE00": ["\\ud83d\\ude00", 1e99]}'
    left = functions.call(chats.ToolCall(id="x", name="f", arguments=written))
    released = json.loads(left.released_arguments)
    assert released["who"] == "Mara \ufffd"
    place = Place("Mara", "Anna", "FIRST")
    back = functions.back([place], Restoration([place]))
    for restored in (back.arguments("f", written), back.answer(written)):
        found = json.loads(restored)
        assert found == {"who": "Anna \ufffd", "\ufffd": ["\U0001f600", 1e99]}
        assert chats.ToolCall(arguments=restored)
    definition = functions.definition(
        chats.ChatTool(name="f", parameters='{"title": "\\udfff", "enum": ["\\ud800"]}')
    )
    assert json.loads(definition.released_parameters) == {"title": "\ufffd", "enum": ["\ufffd"]}


def test_no_name_reaches_an_address_that_a_call_loads(functions: Functions) -> None:
    place = Place("Mara", "Anna", "FIRST")
    page = Place("https://lamp.example.com/a", "https://acme.test/anna", "IDENTIFIER")
    places, values = [place, page], [form.format("Mara", "Lamb") for form in ADDRESSES]
    came = {
        "url": values,
        "to": "Mara",
        "body": f"Dear Mara,\n{page.released}",
        "page": page.released,
    }
    back = functions.back(places, Restoration(places), {"open_page"})
    turned = json.loads(back.arguments("load", json.dumps(came)))
    assert turned["url"] == values
    assert turned["to"] == "Anna"
    assert turned["body"] == f"Dear Anna,\n{page.true}"
    assert turned["page"] == page.true
    assert back.addresses > len(values) / 2
    assert back.arguments("load", "{ https://evil.test/?q=Mara") == "{ https://evil.test/?q=Mara"


def test_a_blank_in_an_argument_ends_no_address(functions: Functions) -> None:
    place = Place("Mara", "Anna", "FIRST")
    came = json.dumps({"url": " https://evil.test/?q=Mara Mara"})
    assert functions.back([place], Restoration([place])).arguments("load", came) == came


def test_a_trusted_function_gets_names_in_addresses(functions: Functions) -> None:
    place = Place("Mara", "Anna", "FIRST")
    back = functions.back([place], Restoration([place]), {"search"})
    came = json.dumps({"url": "https://crm.test/?q=Mara"})
    assert json.loads(back.arguments("search", came)) == {"url": "https://crm.test/?q=Anna"}
    assert back.arguments("load", came) == came
    assert back.addresses == 1


def test_calls_are_numbered_and_no_answer_is_to_none(functions: Functions) -> None:
    assert functions.call(chats.ToolCall(id="anna", name="f", arguments="{}")).id == "call_1"
    assert functions.answered("anna") == "call_1"
    assert functions.answered("") == ""
    with pytest.raises(InvalidInput):
        functions.answered("nobody's")


def test_the_same_json_is_the_same_however_it_is_written() -> None:
    assert canonical('{"b":1, "a":[ 2 ]}') == canonical('{"a": [2], "b": 1}')
    assert canonical("{ no") == "{ no"
