"""Conversations: privatise every turn, have the model answer, turn its surrogates back.

Why it is here: in this order. What leaves is charged and noted first, so that whatever dies
afterwards, nothing is charged twice and the next request goes on with the same surrogates. An
answer that came through here leaves again as the cloud wrote it, which tells it nothing; any other
turn is privatised, whoever is said to have spoken it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.privacy.meanings import TOKEN, Place, observe
from sottovoce.core.privacy.restoration import COMMON, Restoration
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.frequencies import commonest
from sottovoce.core.text.readings import READINGS
from sottovoce.core.wire.limits import LARGEST_PROMPT, LONGEST_STOP, MOST_STOPS, MOST_TURNS
from sottovoce.edge.client.generation import Stoppable, Writer
from sottovoce.edge.state.conversations import Conversation, Conversations
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.privatize import Drawn, Releases, resolve
from sottovoce.edge.tasks.stops import Stops
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["LARGEST_ANSWER", "Chat"]

LARGEST_ANSWER: Final = 1 << 20
"""Characters of an answer: more than any model writes that is asked for 8,192 tokens."""

_ASSISTANT: Final = generation.ROLE_ASSISTANT
_NAME: Final = READINGS.index("NAME")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both calls ask for."""

    turns: Sequence[chats.ChatTurn]
    model: str
    privacy: agent.PrivacyOptions
    conversation: str
    sampling: chats.Sampling
    stops: Sequence[str]

    @classmethod
    def of(
        cls, request: chats.ChatRequest | chats.CompleteRequest, turns: Sequence[chats.ChatTurn]
    ) -> Self:
        """Of a request, checked before any privacy is spent: see `_check`."""
        asked = cls(
            turns,
            request.model,
            request.privacy,
            request.conversation,
            request.sampling,
            request.stops,
        )
        _check(asked)
        return asked


@dataclass(frozen=True, slots=True)
class _Departing:
    """What is to leave, charged and noted."""

    request: generation.GenerateRequest
    told: chats.Departed
    restoration: Restoration
    conversation: Conversation
    what: str


_Event = chats.Departed | str | chats.Answered


class Chat:
    """Holds conversations with a model in the cloud.

    Args:
        engine: the bundle in use.
        releases: privatises and charges.
        conversations: what is noted of them.
        outbox: knows what adapters were trained with.
        writer: answers.
        default: how a turn is privatised where a request does not say.
    """

    def __init__(
        self,
        engine: Engine,
        releases: Releases,
        conversations: Conversations,
        outbox: Outbox,
        writer: Writer,
        default: Setting,
    ) -> None:
        self._engine = engine
        self._releases = releases
        self._conversations = conversations
        self._outbox = outbox
        self._writer = writer
        self._default = default

    def chat(
        self, request: chats.ChatRequest, stoppable: Stoppable
    ) -> Generator[chats.ChatResponse, None, None]:
        """What leaves, then the answer in pieces, then how it ended.

        Args:
            request: the conversation; its last turn is answered.
            stoppable: is given what ends the answer from another thread.

        Raises:
            InvalidInput, NotReady, QuotaExceeded: see `Releases.release`; nothing has left.
            NotFound: no such adapter. Unavailable: nobody answers, or not as agreed.
        """
        asked = _Asked.of(request, request.turns)
        departing = self._departing(asked)
        for turn in departing.told.turns:
            departing.request.conversation.turns.add(
                role=turn.role, released_text=turn.released_text
            )
        for event in self._answer(asked, departing, stoppable):
            yield chats.ChatResponse(**_field(event))

    def complete(
        self, request: chats.CompleteRequest, stoppable: Stoppable
    ) -> Generator[chats.CompleteResponse, None, None]:
        """The same for a text that is to be continued."""
        text = chats.ChatTurn(role=generation.ROLE_USER, text=request.text)
        asked = _Asked.of(request, [text])
        departing = self._departing(asked)
        (turn,) = departing.told.turns
        departing.request.released_text = turn.released_text
        for event in self._answer(asked, departing, stoppable):
            yield chats.CompleteResponse(**_field(event))

    def _departing(self, asked: _Asked) -> _Departing:
        trained = self._outbox.trained_with(self._writer.check(asked.model))
        self._releases.check_session(asked.conversation)
        setting = resolve(asked.privacy, trained or self._default)
        opened = self._engine.current()
        # What one cloud was told under one setting says nothing of another.
        what = repr((setting, self._writer.peer))
        conversation = self._conversations.find(
            asked.conversation,
            [(turn.role, turn.text) for turn in asked.turns],
            (
                self._conversations.digest(before.text, turn.text)
                for before, turn in reversed([*pairwise(asked.turns)])
                if turn.role == _ASSISTANT
            ),
        )
        drawn: list[Drawn] = []

        def released(turn: chats.ChatTurn) -> str:
            text = turn.text
            if turn.role == _ASSISTANT:
                digest = self._conversations.digest(text)
                asked_as, came = conversation.answers.get(digest, ("", ""))
                if asked_as == what:
                    return came
            if not text or text.isspace():
                return text
            drawn.append(
                self._releases.drawn(
                    opened, text, setting, conversation.session, conversation.owners
                )
            )
            return drawn[-1].release.text

        turns = [
            chats.DepartedTurn(role=turn.role, released_text=released(turn)) for turn in asked.turns
        ]
        if not drawn or not asked.turns[-1].text.strip():
            raise InvalidInput("there is nothing to answer", fix="send a text", subject="turns")
        places = observe([each.release for each in drawn], known=conversation.places)
        charged, number = self._releases.charge(drawn)
        conversation.observed(places)
        self._conversations.keep(conversation)
        release = drawn[-1].release
        return _Departing(
            generation.GenerateRequest(
                bundle_id=opened.bundle.id,
                sampling=generation.GenerateSampling(
                    **{name.name: value for name, value in asked.sampling.ListFields()}
                ),
                released_stops=filter(_wordless, asked.stops),
            ),
            chats.Departed(
                turns=turns,
                charged=charged,
                turns_charged=number,
                level=release.setting.level,
                mechanism=release.setting.mechanism,
                policy=release.setting.policy,
                eta=release.eta,
                bundle_id=opened.bundle.id,
            ),
            _restoration(opened.bundle, turns, [*conversation.places, *places]),
            conversation,
            what,
        )

    def _answer(
        self, asked: _Asked, departing: _Departing, stoppable: Stoppable
    ) -> Iterator[_Event]:
        yield departing.told
        stream, stops = departing.restoration.stream(), Stops(asked.stops)
        came: list[str] = []
        shown: list[str] = []
        size = 0
        done = None
        try:
            with closing(self._writer.write(asked.model, departing.request, stoppable)) as pieces:
                for piece in pieces:
                    if piece.WhichOneof("event") == "done":
                        done = piece.done
                        break
                    size += len(piece.delta_text)
                    if size > LARGEST_ANSWER:
                        raise SottovoceError(
                            f"the answer has more than {LARGEST_ANSWER} characters",
                            fix="ask for fewer tokens",
                        )
                    came.append(piece.delta_text)
                    if text := stops.feed(stream.feed(piece.delta_text)):
                        shown.append(text)
                        yield text
                    if stops.found:
                        break
            if text := stops.feed(stream.finish()) + stops.finish():
                shown.append(text)
                yield text
        finally:
            # However it ended: a client may send again what it has of it.
            self._note(asked, departing, "".join(shown), "".join(came))
        if done is None and not stops.found:
            raise SottovoceError("the model's answer came to no end", fix="ask again")
        ended = done or generation.GenerateDone(finish_reason=generation.FINISH_REASON_STOP)
        yield chats.Answered(
            finish_reason=ended.finish_reason,
            prompt_tokens=ended.prompt_tokens,
            completion_tokens=ended.completion_tokens,
            restored=[
                chats.TurnedBack(came=one, shown=other, times=times)
                for (one, other), times in stream.restored.items()
            ],
            doubtful=[
                chats.Doubtful(came=one, times=times) for one, times in stream.doubtful.items()
            ],
            came="".join(came),
        )

    def _note(self, asked: _Asked, departing: _Departing, shown: str, came: str) -> None:
        """Notes an answer, so that it can leave again as it came."""
        if shown:
            held = departing.conversation
            held.answered(self._conversations.digest(shown), departing.what, came)
            if not asked.conversation:
                held.known[self._conversations.digest(asked.turns[-1].text, shown)] = None
            self._conversations.keep(held)


def _check(asked: _Asked) -> None:
    """Refuses what no cloud would take, before any privacy is spent."""
    size = sum(len(turn.text.encode()) for turn in asked.turns)
    demands = (
        (1 <= len(asked.turns) <= MOST_TURNS, "turns", f"1 to {MOST_TURNS} turns"),
        (size <= LARGEST_PROMPT, "turns", f"at most {LARGEST_PROMPT} bytes of text"),
        (all(turn.role for turn in asked.turns), "role", "the role of every turn"),
        (len(asked.stops) <= MOST_STOPS, "stops", f"at most {MOST_STOPS} of them"),
        (
            all(1 <= len(stop.encode()) <= LONGEST_STOP for stop in asked.stops),
            "stops",
            f"1 to {LONGEST_STOP} bytes each",
        ),
    )
    for holds, subject, wanted in demands:
        if not holds:
            raise InvalidInput(
                f"the request's {subject} cannot be taken", fix=f"send {wanted}", subject=subject
            )


def _wordless(stop: str) -> bool:
    """Whether the cloud may be told of a stop string: a name that stands alone reads as a word."""
    return stop.isascii() and not any(map(str.isalnum, stop))


def _field(event: _Event) -> dict[str, Any]:
    if isinstance(event, str):
        return {"delta_text": event}
    return {"departed" if isinstance(event, chats.Departed) else "answered": event}


def _restoration(
    bundle: Bundle, turns: Sequence[chats.DepartedTurn], places: Sequence[Place]
) -> Restoration:
    """The map back of what leaves now: what does not cannot come back."""
    leaving = {token.lower() for turn in turns for token in TOKEN.findall(turn.released_text)}
    there = (
        place
        for place in dict.fromkeys(places)
        if leaving.issuperset(TOKEN.findall(place.released.lower()))
    )

    def ordinary(word: str) -> bool:
        listed = bundle.word_ids.get(word)
        return listed is not None and bundle.readings[listed] != _NAME

    return Restoration(there, commonest(bundle.manifest.language, COMMON), ordinary)
