"""Streams are read up to their agreed end."""

from __future__ import annotations

import io
import json
import select
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.rpc import openai
from sottovoce.core.rpc.openai import Heard, cut, heard
from tests.support.certificates import Certificate
from tests.support.upstream_server import openai_server


def _said(*events: Any) -> list[Heard]:
    lines = [event if isinstance(event, bytes) else _line(event) for event in events]
    return list(heard(io.BytesIO(b"\n".join([*lines, b""]))))


def _line(event: Any) -> bytes:
    return b"data: " + json.dumps(event).encode()


def _piece(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, **more}]}


def test_pieces_of_both_forms_are_read_up_to_the_end() -> None:
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": -1}, "choices": []}
    done = _piece("", finish_reason="length")
    told = _said(b": alive", _piece("Ana "), b"event: x", {"choices": [{"text": "was"}]}, done)
    assert told == [Heard("Ana ", "", None), Heard("was", "", None), Heard("", "length", None)]
    assert _said(usage, b"data: [DONE]", _piece("late")) == [Heard("", "", (3, 0))]
    usage["usage"]["prompt_tokens"] = True
    assert repr(_said(usage)) == repr([Heard("", "", (0, 0))])  # False and 0 are equal


def test_what_is_no_text_of_the_answer_is_left_out() -> None:
    assert _said(_piece("b", index=1)) == [Heard("", "", None)]
    for delta in (None, {}, {"content": None}, {"content": 3}, {"tool_calls": []}):
        assert _said({"choices": [{"delta": delta}]}) == [Heard("", "", None)], delta
    assert _said({"choices": [{"delta": "no piece"}]}) == [Heard("", "", None)]
    assert "".join(each.text for each in _said(_piece("\ud83d"))) == "\ufffd"


def test_halves_of_a_pair_that_come_in_two_pieces_are_one_character() -> None:
    def call(arguments: str, number: int = 0) -> dict[str, Any]:
        calls = [{"index": number, "function": {"arguments": arguments}}]
        return {"choices": [{"delta": {"tool_calls": calls}}]}

    def thought(text: str) -> dict[str, Any]:
        return {"choices": [{"delta": {"reasoning": text}}]}

    pieces = [_piece("a\ud83d"), _piece(""), _piece("\ude00b")]
    pieces += [thought("\ud83d"), thought("\ude00")]
    pieces += [call("x\ud83d"), call("\ud83d", 1), call("\ude00"), call("!", 1), _piece("\ud83d")]
    told = _said(*pieces, b"data: [DONE]")
    assert "".join(each.text for each in told) == "a\U0001f600b\ufffd"
    assert "".join(each.reasoning for each in told) == "\U0001f600"
    calls = [each for event in told for each in event.calls]
    assert "".join(each.arguments for each in calls if not each.number) == "x\U0001f600"
    assert "".join(each.arguments for each in calls if each.number) == "\ufffd!"


def test_a_refusal_is_the_text_of_the_answer() -> None:
    refused = {"choices": [{"delta": {"content": None, "refusal": "I will not"}}]}
    assert _said(refused) == [Heard("I will not", "", None)]


def test_an_error_of_null_is_none() -> None:
    assert _said(_piece("so") | {"error": None}) == [Heard("so", "", None)]


@pytest.mark.parametrize(
    "event",
    [b"data: {", b"data: 3", b"data: \xff", {"error": {"message": "x"}}, {"choices": 3}],
)
def test_what_was_not_agreed_is_an_error(event: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        _said(_piece("before"), event)


def test_a_byte_order_mark_may_begin_the_stream() -> None:
    mark = b"\xef\xbb\xbf"
    assert _said(mark + _line(_piece("Ana ")), _piece("was"))[0].text == "Ana "
    assert _said(mark, _piece("Ana"))[0].text == "Ana"
    assert _said(_piece("Ana"), mark + _line(_piece("was"))) == [Heard("Ana", "", None)]


@pytest.mark.parametrize(
    ("name", "most"), [("LONGEST_LINE", 20), ("MOST_BYTES", 100), ("MOST_SECONDS", -1.0)]
)
def test_what_has_no_end_is_ended(monkeypatch: pytest.MonkeyPatch, name: str, most: float) -> None:
    assert len(_said(*[_piece("word")] * 9)) == 9
    monkeypatch.setattr(openai, name, most)
    with pytest.raises(ValueError, match="no end"):
        _said(*[_piece("word")] * 9)


def test_what_is_cut_stays_encrypted_and_sends_no_more(tmp_path: Path) -> None:
    files = Certificate.make().write(tmp_path)
    context = ssl.create_default_context(cafile=files[0])
    with (
        openai_server(files) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        cut(connection)
        assert connection._sslobj is not None  # type: ignore[attr-defined]
        with pytest.raises((ssl.SSLError, BrokenPipeError)):
            connection.sendall(b"SECRET")
        cut(connection)


def test_a_peer_that_waits_for_room_to_write_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    with peer:
        peer.setblocking(False)
        room = select.poll()
        room.register(peer, select.POLLOUT)
        while room.poll(1_000):
            peer.send(bytes(1 << 16))
        cut(connection)
        with connection:
            while connection.recv(1 << 16):
                pass
        assert room.poll(30_000)  # without a word, it asks after seconds that double each time
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            peer.send(b"x")
