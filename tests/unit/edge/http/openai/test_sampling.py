"""How an app has tokens chosen, as the server behind the device receives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.text.tagger import Tagger
from tests.support.echo import EchoingCloud
from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import before_a_server
from tests.support.upstream_server import Server

FORMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "the lake"}]},
    "/v1/completions": {"prompt": "the lake"},
}
SEEDS = (0, 7, -1, -5, 19_870_412, (1 << 53) + 1, (1 << 63) - 1)


def left(door: Door, server: Server, path: str, **fields: Any) -> dict[str, Any]:
    assert door.ask(path, FORMS[path] | fields).status == 200
    return server.asked[-1][2]


@pytest.mark.parametrize("path", FORMS)
def test_a_seed_leaves_as_a_hash_that_every_server_takes(
    at_server: tuple[Door, Server], path: str
) -> None:
    hashed = [left(*at_server, path, seed=seed)["seed"] for seed in SEEDS]
    assert all(0 <= seed < 1 << 31 for seed in hashed)
    assert not set(hashed) & {*SEEDS, *(seed % (1 << 63) for seed in SEEDS)}
    # Seven draws from 2**31 collide once in 10**8 keys.
    assert len({*hashed[:2], *hashed[3:]}) == len(SEEDS) - 1
    assert hashed == [left(*at_server, path, seed=seed)["seed"] for seed in SEEDS]


def test_a_seed_is_hashed_alike_whatever_the_conversation(at_server: tuple[Door, Server]) -> None:
    chat, text = FORMS
    other = FORMS[chat] | {"messages": [{"role": "user", "content": "a garden"}]}
    door, server = at_server
    assert door.ask(chat, other | {"seed": 7}).status == 200
    assert server.asked[-1][2]["seed"] == left(door, server, text, seed=7)["seed"]


def test_another_device_has_other_hashes(
    at_server: tuple[Door, Server],
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
) -> None:
    path = "/v1/completions"
    with before_a_server(tmp_path, small_bundle_folder, lexicon_tagger) as other:
        assert left(*other, path, seed=7)["seed"] != left(*at_server, path, seed=7)["seed"]


def test_our_own_cloud_receives_the_hash_as_well(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, cloud = at_cloud
    assert door.chat("the lake", seed=19_870_412).status == 200
    assert 0 <= cloud.asked[-1].sampling.seed < 1 << 31
    assert cloud.asked[-1].sampling.seed != 19_870_412


def test_temperature_and_top_p_leave_as_sent_and_no_seed_stays_none(
    at_server: tuple[Door, Server],
) -> None:
    body = left(*at_server, "/v1/chat/completions", temperature=0.7, top_p=0.9, max_tokens=5)
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 5)
    assert "seed" not in body
