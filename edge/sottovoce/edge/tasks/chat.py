"""Conversations: privatise turns, get the answer, and restore its surrogates.

The release is charged and noted before it leaves. An answer that came through this device leaves
again as the cloud wrote it. Every other turn is privatised, whatever its role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from secrets import token_hex
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, PermissionDenied, Unavailable
from sottovoce.core.privacy.policies import Setting, find
from sottovoce.core.privacy.questions import asked_for
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import COMMON, Restoration, Stream, ordinary_words
from sottovoce.core.privacy.surrogate_table import TOKEN, Place, observe
from sottovoce.core.privacy.surrogates.person_surrogates import forget_values
from sottovoce.core.rpc.streams import Pieces, Stops
from sottovoce.core.text.frequencies import commonest
from sottovoce.edge.client.cloud import Stoppable
from sottovoce.edge.client.generation import Writer, check_size
from sottovoce.edge.state.apps import calling
from sottovoce.edge.state.conversations import Conversation, Conversations
from sottovoce.edge.state.ledger import Purpose, Record, released_texts
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.chat_request import Consent, agreed_by_owner, asks, check_request, offers
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.functions import Functions, Returning, canonical
from sottovoce.edge.tasks.privatize import DrawnText, Releases, released_words, resolve
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_MOST_REPORTED: Final = 1_000
_ASSISTANT: Final = generation.ROLE_ASSISTANT
_USER: Final = generation.ROLE_USER


@dataclass(frozen=True, slots=True)
class _Departing:
    """A request that is ready to leave: charged and noted."""

    request: generation.GenerateRequest
    turns: Sequence[generation.ReleasedTurn]
    told: chats.Departed
    restoration: Restoration
    returning: Returning
    conversation: Conversation
    what: str


class _Leaving:
    """The turns and functions of one request as they leave. Each distinct text is drawn once.

    Args:
        draw: privatises a text, with what the model asked for before it.
        came: returns an answer or a call as it came to this device, if it did.
        in_context: whether the policy reads a value together with its key.

    Attributes:
        drawn: the texts that are privatised now.
    """

    def __init__(
        self,
        draw: Callable[[str, str], DrawnText],
        came: Callable[..., str | None],
        *,
        in_context: bool,
    ) -> None:
        self._draw, self._came = draw, came
        self.drawn: dict[tuple[str, str], DrawnText] = {}
        self.functions = Functions(self._text, self._read if in_context else None)

    def turn(self, turn: chats.ChatTurn, question: str) -> generation.ReleasedTurn:
        came = self._came(turn.text) if turn.role == _ASSISTANT else None
        return generation.ReleasedTurn(
            role=turn.role,
            released_text=self._text(turn.text, question) if came is None else came,
            tool_calls=map(self._call, turn.tool_calls),
            tool_call_id=self.functions.answered(turn.tool_call_id),
        )

    def release(self, text: str, question: str, left: generation.ReleasedTurn) -> Release | None:
        """Return the release of a turn's text, if the turn left with it."""
        drawn = self.drawn.get((text, question))
        return drawn.release if drawn and drawn.release.text == left.released_text else None

    def _call(self, call: chats.ToolCall) -> generation.ReleasedToolCall:
        came = self._came(call.name, canonical(call.arguments))
        return self.functions.call(call) if came is None else self.functions.known(call, came)

    def _text(self, text: str, question: str = "") -> str:
        return self._read(text, question).text if text and not text.isspace() else text

    def _read(self, text: str, question: str = "") -> Release:
        if (text, question) not in self.drawn:
            self.drawn[text, question] = self._draw(text, question)
        return self.drawn[text, question].release


_Word = TypeVar("_Word", str, tuple[str, str])
_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class _Thought:
    """A piece of the model's reasoning before its answer."""

    text: str


_Event = chats.Departed | str | _Thought | chats.ToolCall | chats.Answered


@dataclass(eq=False)
class Chat:
    """Holds conversations with a model in the cloud.

    Args:
        default: the privacy setting for requests that do not name one.
        trusted: names of functions whose arguments are restored inside addresses too.
        consent: is asked before the first message of a conversation leaves.
    """

    engine: Engine
    releases: Releases
    conversations: Conversations
    outbox: Outbox
    writer: Writer
    default: Setting
    record: Record = field(default_factory=Record)
    trusted: Set[str] = frozenset()
    consent: Consent = field(default_factory=lambda: Consent(needed=False))

    def chat(
        self, request: chats.ChatRequest, stoppable: Stoppable = lambda stop: None
    ) -> Generator[chats.ChatResponse, None, None]:
        """Yield the released request, then the answer in pieces, then how it ended.

        Args:
            request: the conversation; its last turn is answered.

        Raises:
            InvalidInput, NotReady, QuotaExceeded: see `Releases.release` and `Consent.check`;
                nothing has left.
            NotFound: there is no such adapter.
            PermissionDenied: an app asks for a preview.
            Unavailable: the server does not answer, or not as agreed.
        """
        departing = self._departing(request)
        departing.request.conversation.turns.extend(departing.turns)
        for event in self._answer(request, departing, stoppable):
            yield chats.ChatResponse(**_field(event))

    def complete(
        self, request: chats.CompleteRequest, stoppable: Stoppable = lambda stop: None
    ) -> Generator[chats.CompleteResponse, None, None]:
        """Continue a text; otherwise like `chat`."""
        asked = chats.ChatRequest(
            turns=[chats.ChatTurn(role=generation.ROLE_USER, text=request.text)],
            model=request.model,
            privacy=request.privacy,
            conversation=request.conversation,
            sampling=request.sampling,
            stops=request.stops,
            preview=request.preview,
            words=request.words,
            agreed=request.agreed,
        )
        departing = self._departing(asked)
        (turn,) = departing.turns
        departing.request.released_text = turn.released_text
        for event in self._answer(asked, departing, stoppable):
            if not isinstance(event, _Thought):
                yield chats.CompleteResponse(**_field(event))

    def _departing(self, asked: chats.ChatRequest) -> _Departing:
        if asked.preview and calling() is not None:
            raise PermissionDenied(
                "apps may not ask for a preview",
                fix="have the device's owner do it, with the `sotto` command",
                subject="preview",
            )
        check_request(asked, options=self.writer.takes_options)
        trained = self.outbox.trained_with(self.writer.check(asked.model))
        self.releases.check_session(asked.conversation)
        setting = resolve(asked.privacy, trained or self.default)
        opened = self.engine.current()
        # Notes for one cloud and one setting must not be used for another.
        what = repr((setting, self.writer.peer))
        conversation = self.conversations.find(
            asked.conversation,
            [(turn.role, turn.text) for turn in asked.turns],
            (
                self.conversations.digest(before.text, turn.text, *self._made(turn.tool_calls))
                for before, turn in reversed([*pairwise(asked.turns)])
                if turn.role == _ASSISTANT
            ),
        )

        def draw(text: str, question: str) -> DrawnText:
            left = [each.release.text for each in leaving.drawn.values()]
            known = {*conversation.owners}
            drawn = self.releases.drawn(
                opened, text, setting, conversation.session, conversation.owners, question
            )
            # To hide it in texts that left before would tell what its surrogate stands for.
            forget_values(conversation.owners, conversation.owners.keys() - known, left)
            return drawn

        leaving = _Leaving(
            draw,
            lambda *said: conversation.came(self.conversations.digest(*said), what),
            in_context=find(setting.policy).context,
        )
        functions = leaving.functions
        tools = [functions.definition(tool) for tool in asked.tools]
        form = functions.form(asked.format) if asked.HasField("format") else None
        questions = [*map(_question, [None, *asked.turns], asked.turns)]
        turns = [*map(leaving.turn, asked.turns, questions)]
        drawn = leaving.drawn.values()
        if not drawn or not asks(asked.turns[-1]):
            raise InvalidInput("there is nothing to answer", fix="send a text", subject="turns")
        places = observe([each.release for each in drawn], known=conversation.places)
        purpose = Purpose("chat", asked.model)
        charged, number = 0.0, 0
        if not asked.preview:
            if not conversation.answers and not agreed_by_owner(asked):
                self.consent.check(conversation.name, [*_texts(turns, tools, form)])
            charged, number = self.releases.charge(drawn, purpose)
        request = self._request(asked, opened.bundle.id, functions, tools, form)
        if not asked.preview:
            # The newest turn last: the record keeps the end of a long text.
            texts = released_texts(request, *turns)
            self.record.note(purpose, self.writer.peer, texts, f"{len(turns)} turns")
            conversation.observed(places)
            self.conversations.keep(conversation)
        release = next(reversed(drawn)).release
        places = [*conversation.places, *places]
        restoration = _restoration(opened.bundle, _texts(turns, tools, form), places)
        return _Departing(
            request,
            turns,
            chats.Departed(
                turns=[
                    _departed(
                        left, leaving.release(turn.text, question, left) if asked.words else None
                    )
                    for turn, question, left in zip(asked.turns, questions, turns, strict=True)
                ],
                charged=charged,
                turns_charged=number,
                level=release.setting.level,
                mechanism=release.setting.mechanism,
                policy=release.setting.policy,
                eta=release.eta,
                bundle_id=opened.bundle.id,
                tools=[_told(chats.DepartedTool(), tool) for tool in tools],
                format=_told(chats.DepartedFormat(), form) if form else None,
            ),
            restoration,
            functions.back(places, restoration, self.trusted),
            conversation,
            what,
        )

    def _request(
        self,
        asked: chats.ChatRequest,
        bundle_id: str,
        functions: Functions,
        tools: Sequence[generation.ReleasedTool],
        form: generation.ReleasedFormat | None,
    ) -> generation.GenerateRequest:
        """Return the request that leaves, without its turns."""
        sampling = {name.name: value for name, value in asked.sampling.ListFields()}
        if "seed" in sampling:
            sampling["seed"] = self.conversations.seed(sampling["seed"])
        return generation.GenerateRequest(
            bundle_id=bundle_id,
            sampling=generation.GenerateSampling(**sampling),
            released_stops=filter(_is_wordless, asked.stops),
            tools=tools,
            tool_use=asked.tool_use,
            released_tool=functions.name(asked.tool) if asked.tool else "",
            parallel_tool_calls=asked.parallel_tool_calls
            if asked.HasField("parallel_tool_calls")
            else None,
            format=form,
        )

    def _answer(
        self, asked: chats.ChatRequest, departing: _Departing, stoppable: Stoppable
    ) -> Iterator[_Event]:
        yield departing.told
        if asked.preview:
            return
        last = departing.turns[-1]
        continued = last.released_text if last.role == _ASSISTANT else ""
        stream = departing.restoration.stream(departing.request.released_text or continued)
        stops = Stops(asked.stops)
        came, shown = Pieces(), Pieces()
        calls: list[tuple[str, str]] = []
        made: list[str] = []
        size = 0
        done = None
        whole = departing.request.HasField("format")  # JSON is turned back value by value
        thinking: Stream | None = None
        try:
            with closing(self.writer.write(asked.model, departing.request, stoppable)) as pieces:
                for piece in pieces:
                    if piece.delta_reasoning:
                        size += len(piece.delta_reasoning)
                        check_size(size)
                        thinking = thinking or departing.restoration.stream()
                        if text := thinking.feed(piece.delta_reasoning):
                            yield _Thought(text)
                        continue
                    if thinking and (text := thinking.finish()):
                        yield _Thought(text)
                    thinking = None
                    if piece.WhichOneof("event") == "done":
                        done = piece.done
                        break
                    if piece.WhichOneof("event") == "tool_call":
                        calls.append(_said(piece.tool_call))
                        size += sum(map(len, calls[-1]))
                    size += len(piece.delta_text)
                    check_size(size)
                    came.add(piece.delta_text)
                    if whole:
                        continue
                    if text := stops.feed(stream.feed(piece.delta_text)):
                        shown.add(text)
                        yield text
                    if stops.found:
                        break
            rest = stream.finish()
            if whole and came:
                rest = departing.returning.answer(came.text())
            if text := stops.feed(rest) + stops.finish():
                shown.add(text)
                yield text
            if not stops.found:
                for digest, made_call in self._called(asked, departing, calls):
                    made.append(digest)
                    yield made_call
        finally:
            # Even after a broken answer: a client may send back the part it received.
            self._note(asked, departing, shown.text(), came.text(), made)
        if done is None and not stops.found:
            raise Unavailable("the model's answer came to no end", fix="ask again")
        ended = done or generation.GenerateDone(finish_reason=generation.FINISH_REASON_STOP)
        if calls and not stops.found:
            ended.finish_reason = generation.FINISH_REASON_TOOL_CALLS
        returned = departing.returning
        yield chats.Answered(
            finish_reason=ended.finish_reason,
            prompt_tokens=ended.prompt_tokens,
            completion_tokens=ended.completion_tokens,
            restored=[
                chats.TurnedBack(came=one, shown=other, times=times)
                for (one, other), times in _most(stream.restored + returned.restored)
            ],
            doubtful=[
                chats.Doubtful(came=one, times=times)
                for one, times in _most(stream.doubtful + returned.doubtful)
            ],
            came=came.text(),
            addresses_kept=stream.addresses + returned.addresses,
        )

    def _called(
        self, asked: chats.ChatRequest, departing: _Departing, calls: Iterable[tuple[str, str]]
    ) -> list[tuple[str, chats.ToolCall]]:
        """Restore the calls, and return each with its digest.

        One write notes all calls, because it holds the whole conversation. They leave again as they
        came.
        """
        conversation, returning = departing.conversation, departing.returning
        made = []
        for released_name, came in calls:
            name = returning.name(released_name)
            if not offers(asked, name):
                raise Unavailable(
                    f"{self.writer.peer} asks for a function that was not offered", fix="ask again"
                )
            arguments = returning.arguments(name, came)
            digest = self.conversations.digest(name, canonical(arguments))
            conversation.answered(digest, departing.what, came)
            call = chats.ToolCall(id=f"call_{token_hex(12)}", name=name, arguments=arguments)
            made.append((digest.hex(), call))
        if made:
            self.conversations.keep(conversation)
        return made

    def _made(self, calls: Iterable[chats.ToolCall]) -> list[str]:
        """Return digests of calls, over name and arguments but not their numbers."""
        digest = self.conversations.digest
        return [digest(call.name, canonical(call.arguments)).hex() for call in calls]

    def _note(
        self,
        asked: chats.ChatRequest,
        departing: _Departing,
        shown: str,
        came: str,
        made: Sequence[str],
    ) -> None:
        """Note an answer, so that it can leave again as it came.

        ``made`` holds the digests of its calls.
        """
        held, before = departing.conversation, asked.turns[-1].text
        if shown:
            held.answered(self.conversations.digest(shown), departing.what, came)
        if shown or made:
            if not asked.conversation:
                digest = self.conversations.digest(before, shown, *made)
                held.known[digest] = None
            self.conversations.keep(held)


def _question(before: chats.ChatTurn | None, turn: chats.ChatTurn) -> str:
    """Return what the model asked for in the turn before a user's turn; "" for nothing."""
    answers = before is not None and before.role == _ASSISTANT and turn.role == _USER
    return asked_for(before.text) if before is not None and answers else ""


def _said(call: generation.ReleasedToolCall) -> tuple[str, str]:
    """Return a call's name and arguments, without the message that repeats them."""
    return call.released_name, call.released_arguments


def _departed(turn: generation.ReleasedTurn, seen: Release | None) -> chats.DepartedTurn:
    return chats.DepartedTurn(
        role=turn.role,
        released_text=turn.released_text,
        tool_calls=[_told(chats.DepartedToolCall(), call) for call in turn.tool_calls],
        tool_call_id=turn.tool_call_id,
        words=released_words(seen) if seen else (),
    )


def _told(told: _M, leaving: Message) -> _M:
    """Copy the fields of a leaving message that an app may see."""
    for each in told.DESCRIPTOR.fields:
        setattr(told, each.name, getattr(leaving, each.name))
    return told


def _most(counts: Counter[_Word]) -> list[tuple[_Word, int]]:
    return list(counts.items())[:_MOST_REPORTED]


def _texts(
    turns: Iterable[generation.ReleasedTurn],
    tools: Iterable[generation.ReleasedTool],
    form: generation.ReleasedFormat | None,
) -> Iterator[str]:
    """Yield every text of a request that leaves."""
    for turn in turns:
        yield turn.released_text
        yield from (call.released_arguments for call in turn.tool_calls)
    for tool in tools:
        yield from (tool.released_description, tool.released_parameters)
    if form is not None:
        yield from (form.released_description, form.released_schema)


def _field(event: _Event) -> dict[str, Any]:
    if isinstance(event, str):
        return {"delta_text": event}
    if isinstance(event, _Thought):
        return {"delta_reasoning": event.text}
    if isinstance(event, chats.ToolCall):
        return {"tool_call": event}
    return {"departed" if isinstance(event, chats.Departed) else "answered": event}


def _restoration(bundle: Bundle, texts: Iterable[str], places: Sequence[Place]) -> Restoration:
    """Return the map from surrogates back to words, for the texts that leave now.

    A surrogate that does not leave cannot come back.
    """
    said = [*texts]
    leaving = {token.lower() for text in said for token in TOKEN.findall(text)}
    there = (
        place
        for place in dict.fromkeys(places)
        if leaving.issuperset(TOKEN.findall(place.released.lower()))
    )

    common = commonest(bundle.manifest.language, COMMON)
    return Restoration(there, common, ordinary_words(bundle), said)


def _is_wordless(stop: str) -> bool:
    """Return whether the cloud may see a stop string: a lone name reads as a word.

    The device itself looks for all stop strings, in the answer as it is shown. The cloud knows
    another name in the place of a name.
    """
    return stop.isascii() and not any(map(str.isalnum, stop))
