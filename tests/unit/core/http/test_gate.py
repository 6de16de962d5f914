"""Links work once and expire; the error names the command for another."""

from __future__ import annotations

import asyncio

import pytest

from sottovoce.core.http.messages import HttpError
from sottovoce.core.http.page import FEW, LINK_SECONDS, SESSION, PageGate


def test_links_age_and_are_few() -> None:
    now = 0.0
    gate = PageGate(lambda path: False, "sotto ui", 1, lambda: now)
    host = {"host": "127.0.0.1:1"}

    def enters(link: str) -> bool:
        headers = {**host, "authorization": f"Bearer {link}"}
        try:
            asyncio.run(gate.check("POST", SESSION, headers))
            return True
        except Exception:
            return False

    old, young = gate.link(), gate.link()
    now = LINK_SECONDS
    assert enters(young)
    now += 1
    assert not enters(old)
    links = [gate.link() for _ in range(FEW + 1)]
    assert [enters(each) for each in links] == [False] + FEW * [True]


def test_who_has_no_link_is_told_where_there_is_one() -> None:
    gate = PageGate(lambda path: False, "sotto-cloud ui", 1)
    with pytest.raises(HttpError, match="`sotto-cloud ui`") as refused:
        asyncio.run(gate.check("GET", "/", {"host": "127.0.0.1:1"}))
    assert refused.value.status == 401
    assert refused.value.headers == (("WWW-Authenticate", 'Bearer realm="sottovoce"'),)
