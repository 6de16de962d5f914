"""Write texts for many tenants with one decoder in memory, token by token.

The generator shares the model thread with predictor and embedder. A text is a row, and each of its
steps goes through the queue like any request. The row joins a batch between two tokens and leaves
after its last token. Long prompts are read in parts, so other tenants do not wait. Tenants take
turns and pay for every token. Rows of any adapter share a pass (`models/rows.py`).

The types of a request for text and of its answer are here too, for other servers that write
(`upstream.py`).
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from sottovoce.cloud.models.backbone import pack
from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.models.decoder import (
    ATTENTION,
    SENTENCE,
    Cache,
    Decoder,
    Part,
    advance,
    position_bytes,
)
from sottovoce.cloud.models.rows import Row, Update, stacked
from sottovoce.cloud.serving.adapter_cache import BUDGET, AdapterCache, check_bundle, opened
from sottovoce.cloud.serving.batcher import Step, Stream
from sottovoce.cloud.serving.model_thread import DeviceThread
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.core.errors import InvalidInput, Overloaded, QuotaExceeded, SottovoceError
from sottovoce.core.rpc.limits import NEW_TOKENS
from sottovoce.core.rpc.streams import Stops

_HEAD = 256
"""Likeliest tokens to examine first; all tokens are sorted only if these do not suffice."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """A caller's choices for drawing tokens.

    Temperature 0 always takes the likeliest token. ``top_p`` is the probability of the nucleus to
    draw from (Holtzman et al.). Without a seed, draws are random.
    """

    max_tokens: int = NEW_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


class Draw:
    """The draws of one row, independent of all other rows."""

    def __init__(self, sampling: Sampling) -> None:
        self.temperature, self._top_p = sampling.temperature, sampling.top_p
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def token(self, logits: Tensor) -> int:
        """Return a token id for logits Float32 (tokens,) on the CPU and a temperature above 0."""
        # In doubles, from 0 down: even the lowest temperature gives finite numbers.
        probabilities = torch.softmax((logits.double() - logits.max()) / self.temperature, 0)
        values, ids = self._nucleus(probabilities)
        return int(ids[torch.multinomial(values, 1, generator=self._random)])

    def _nucleus(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        everything = len(probabilities)
        if self._top_p >= 1:
            return probabilities, torch.arange(everything)
        for count in (min(_HEAD, everything), everything):
            values, ids = probabilities.topk(count)
            before = values.cumsum(0) - values
            inside = max(1, int((before < self._top_p).sum()))
            if inside < count:
                break
        return values[:inside], ids[:inside]


def choose(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Return the next token of every row, for logits Float32 (B, tokens), all finite."""
    # On a CPU, numpy's argmax is ten times as fast as PyTorch's.
    likeliest: list[int] = (logits if logits.is_cuda else logits.numpy()).argmax(1).tolist()
    return [
        draw.token(logits[place].cpu()) if draw.temperature else likeliest[place]
        for place, draw in enumerate(draws)
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for text.

    The prompt is turns, of which the last is answered, or a text to continue. The stop strings end
    the text, and are left out.
    """

    prompt: tuple[Turn, ...] | str
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[str, ...] = ()


class Finish(Enum):
    """The reason for a text's end.

    The model or a stop string ended it, there was no room, or the upstream server withheld the
    rest.
    """

    STOP = auto()
    LENGTH = auto()
    CONTENT_FILTER = auto()


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a text: its reason, and the model's token counts, 0 if unknown."""

    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole characters of a text; the last piece also holds the end and may have none."""

    text: str
    done: Done | None = None


class Pieces(Protocol):
    """A text in pieces, as the model writes it; for one reader."""

    def __iter__(self) -> Iterator[Piece]: ...

    def cancel(self) -> None:
        """End the work on behalf of the reader; callable from any thread, at any time."""


_BROKEN: Final = "\ufffd"
"""A tokenizer's output for bytes that are no character, or not yet."""

_CONTEXT, _LONG, _LONGEST = 6, 24, 96
"""Tokens that are decoded again with every new one, because neighbours affect spelling.

At least the first number; above the second, fewer if all characters are whole; above the third,
fewer in any case."""

_BYTES: Final = 4
"""Bytes of the longest character: among that many successive tokens, one begins a character."""


class Characters:
    """Yields whole characters of an answer, as its tokens arrive."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0
        """Number of characters of these ids that were returned."""

    def add(self, token: int) -> str:
        """Add ``token``, and return the text that may be shown; often empty."""
        self._ids.append(token)
        text = self._text(self._ids)
        ready = text.rstrip(_BROKEN)  # an incomplete character shows as broken, at the end
        found = ready[self._shown :]
        self._shown = max(self._shown, len(ready))
        if len(self._ids) > _LONG:
            self._shorten()
        return found

    def _shorten(self) -> None:
        """Drop settled tokens, up to the beginning of a character."""
        for kept in range(_CONTEXT, _CONTEXT + _BYTES):
            text = self._text(self._ids[-kept:])
            if _BROKEN not in text or len(self._ids) > _LONGEST:
                self._ids = self._ids[-kept:]
                self._shown = len(text.rstrip(_BROKEN))
                return

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


PATIENCE: Final = 10.0
"""Seconds to wait for other texts to end."""


class Reservations:
    """Shares out a budget of bytes, at most half to one tenant; safe to share between threads.

    Args:
        patience: seconds that `reserve` waits for room.
    """

    def __init__(self, budget: int, *, patience: float = PATIENCE) -> None:
        self._budget, self._patience = budget, patience
        self._held: Counter[str] = Counter()
        self._changed = threading.Condition()

    @property
    def held(self) -> int:
        return self._held.total()

    def reserve(self, tenant: str, size: int) -> Callable[[], None]:
        """Reserve ``size`` bytes, and return a function that releases them, to call once.

        Raises:
            QuotaExceeded: a tenant may have less. Overloaded: other tenants kept the memory.
        """
        share = self._budget // 2
        if size > share:
            raise QuotaExceeded(
                "this text would take more memory than a tenant may have",
                fix="shorten the prompt or ask for fewer tokens, or have the provider raise "
                "`sotto-cloud serve --generation-memory`",
                subject="sampling.max_tokens",
            )

        def room() -> bool:
            return self._held[tenant] + size <= share and self.held + size <= self._budget

        with self._changed:
            if not self._changed.wait_for(room, self._patience):
                raise Overloaded(
                    "the cloud's memory is full of texts that are being written",
                    fix="send the same message again later",
                )
            self._held[tenant] += size
        return partial(self._give_back, tenant, size)

    def _give_back(self, tenant: str, size: int) -> None:
        with self._changed:
            self._held[tenant] -= size
            if not self._held[tenant]:
                del self._held[tenant]
            self._changed.notify_all()


MEMORY: Final = 2 << 30
"""Bytes for the keys and values of all texts in progress."""

ROWS: Final = 8
"""Rows that layers are optimised for."""

CPU_PART, GPU_PART = 128, 2_048
"""Tokens of a prompt in one pass."""

_APART: Final = 2e-2
"""Permitted difference from the logits of the model's own attention, relative to the largest."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A loaded adapter.

    ``model`` is 0 for the decoder, and a number for every other set of weights.
    """

    row: Row
    bundle_id: str = ""
    model: int = 0

    @property
    def bytes(self) -> int:
        return self.row.bytes

    @property
    def prefix(self) -> int:
        """Length of the prefix that each text keeps."""
        return 0 if self.row.prefix is None else len(self.row.prefix)


_NONE: Final = _Served(Row())


@dataclass(slots=True, eq=False)
class _Text:
    """A text in progress: the input of its next pass, and its keys and values."""

    served: _Served
    virtual: Tensor | None
    ids: list[int]
    cache: Cache
    draw: Draw
    characters: Characters
    stops: Stops
    prompt: int
    left: int
    written: int = 0

    def part(self, longest: int) -> Part:
        """Return the part for the next pass, with at most ``longest`` positions."""
        virtual = self.virtual[:longest] if self.virtual is not None else None
        room = longest - (0 if virtual is None else len(virtual))
        return Part(self.served.row, self.cache, virtual, self.ids[:room])

    def added(self, part: Part) -> int:
        """Record that ``part`` went through the model; return the prompt's remaining positions."""
        if self.virtual is not None and part.virtual is not None:
            rest = self.virtual[len(part.virtual) :]
            self.virtual = rest if len(rest) else None
        del self.ids[: len(part.ids)]
        return len(self.ids) + (0 if self.virtual is None else len(self.virtual))

    def wrote(self, token: int, ends: frozenset[int]) -> Piece:
        """Record the chosen ``token``, and return the piece that the reader may see."""
        self.written += 1
        self.left -= 1
        if token in ends:
            return self._done(self.stops.finish(), Finish.STOP)
        text = self.stops.feed(self.characters.add(token))
        if self.stops.found:
            return self._done(text, Finish.STOP)
        if not self.left:
            return self._done(text + self.stops.finish(), Finish.LENGTH)
        self.ids.append(token)
        return Piece(text)

    def _done(self, text: str, finish: Finish) -> Piece:
        return Piece(text, Done(finish, self.prompt, self.written))


_Step = Step[_Text, Piece]


class Generator:
    """Writes with ``decoder`` on ``thread``.

    Args:
        decoder: freshly loaded; it is moved and hooked.
        packed: optimise float32 layers, see `pack`.
        adapters: bytes for adapters.
        memory: bytes for the texts' keys and values.

    Raises:
        InvalidInput: rows cannot share the decoder's kind of attention.
    """

    def __init__(
        self,
        thread: DeviceThread,
        decoder: Decoder,
        *,
        packed: bool = True,
        adapters: int = BUDGET,
        memory: int = MEMORY,
    ) -> None:
        self._thread, self._decoder = thread, decoder
        self._device = thread.device
        decoder.model.to(self._device)
        self._dtype = next(decoder.stack.parameters()).dtype
        self._part = GPU_PART if self._device.type == "cuda" else CPU_PART
        self._take_over()
        if packed:
            pack(decoder.model, ROWS)
        self._ends = decoder.ends
        self._tokens = decoder.tokens  # a tokenizer takes milliseconds to count its tokens
        self._tokenizing = threading.Lock()
        self._numbers = itertools.count(1)
        self._adapters = AdapterCache(self._load, budget=adapters, metrics=thread.metrics)
        self._reservations = Reservations(memory)
        self._stacked: list[tuple[tuple[Row, ...], list[tuple[str, Update]]]] = []

    def submit(
        self,
        asked: Asked,
        files: AdapterFiles | None = None,
        *,
        tenant: str = "",
        bundle_id: str = "",
    ) -> Stream[Piece]:
        """Begin a text; its last piece holds the end.

        Args:
            files: of the adapter, from `locate`; None for the decoder alone.
            tenant: the caller; tenants take turns.
            bundle_id: of the prompt's bundle; must be the adapter's.

        Raises:
            InvalidInput: the prompt is empty, or longer than the decoder's positions.
            QuotaExceeded: the text would take too much memory. Overloaded: too many texts are in
                progress. DataLoss: files are damaged. BundleMismatch: the adapter belongs to
                another decoder or bundle. NotReady: the adapter does not write, or does not fit
                into memory.
        """
        served, release = (_NONE, _nothing) if files is None else self._adapters.acquire(files)
        undo = [release]
        try:
            if files is not None:
                check_bundle(bundle_id, served.bundle_id)
            ids = self._prompt_ids(asked)
            prompt, left = self._sizes(asked, served, len(ids))
            room = prompt + left - 1  # the model never reads the last token
            size = (room + served.prefix) * position_bytes(self._decoder.stack, self._dtype)
            undo.append(self._reservations.reserve(tenant, size))
            text = _Text(
                served=served,
                virtual=served.row.prompt,
                ids=ids,
                cache=Cache.begun(self._decoder.stack, served.row, room, self._dtype),
                draw=Draw(asked.sampling),
                characters=Characters(self._decoder.tokenizer),
                stops=Stops(asked.stops),
                prompt=prompt,
                left=left,
            )
            cost = min(prompt, self._part)
            stream: Stream[Piece] = self._thread.stream(self._step, text, tenant=tenant, cost=cost)
        except BaseException:
            for back in undo:
                back()
            raise

        def ended(_: Any) -> None:
            self._stacked = []  # may hold the last reference to the adapter
            for back in undo:
                back()

        stream.ended.add_done_callback(ended)
        return stream

    def _prompt_ids(self, asked: Asked) -> list[int]:
        chat, prompt = self._decoder.chat, asked.prompt
        with self._tokenizing:  # a tokenizer must not be changed and used at the same time
            return chat.opening(prompt) if isinstance(prompt, str) else chat.prompt(prompt)

    def _sizes(self, asked: Asked, served: _Served, ids: int) -> tuple[int, int]:
        """Return the prompt's positions with virtual tokens, and the most tokens to write."""
        prompt, context = served.row.front + ids, self._decoder.context
        if not ids or prompt >= context:
            raise InvalidInput(
                f"the prompt has {ids} tokens, this model takes 1 to {context - 1}"
                + (f" with the adapter's {served.row.front}" if served.row.front else ""),
                fix="shorten it, or leave out the oldest turns",
                subject="prompt",
            )
        return prompt, min(asked.sampling.max_tokens, context - prompt)

    def _step(self, texts: Sequence[_Text]) -> Iterator[tuple[int, _Step | Exception]]:
        """Run one pass for every text.

        Texts that wait for a token come first, then those that wait for their prompt.
        """
        parts = [text.part(self._part) for text in texts]
        shapes = [(text.served.model, 0, p.length) for text, p in zip(texts, parts, strict=True)]
        passes = self._thread.passes(shapes)
        for unordered in sorted(passes, key=lambda places: max(shapes[p][2] for p in places)):
            # The same texts get the same order, regardless of the queue's order.
            places = sorted(unordered, key=lambda place: id(texts[place].served.row))
            steps = self._advance([texts[p] for p in places], [parts[p] for p in places])
            yield from zip(places, steps, strict=True)

    def _advance(self, texts: Sequence[_Text], parts: Sequence[Part]) -> list[_Step | Exception]:
        try:
            states = advance(self._decoder.stack, parts, self._updates(parts))
        except Exception as error:  # one row's fault must not fail the other rows
            if len(parts) == 1:
                return [error]
            alone = zip(texts, parts, strict=True)
            return [self._advance([text], [part])[0] for text, part in alone]
        left = [text.added(part) for text, part in zip(texts, parts, strict=True)]
        read = [place for place, tokens in enumerate(left) if not tokens]
        found: list[_Step | Exception] = [
            Step(None, text, min(tokens, self._part))
            for text, tokens in zip(texts, left, strict=True)
        ]
        written = self._write([texts[p] for p in read], states[read])
        for place, step in zip(read, written, strict=True):
            found[place] = step
        return found

    @torch.inference_mode()
    def _write(self, texts: Sequence[_Text], states: Tensor) -> list[_Step | Exception]:
        """Return the next token of each text, for last hidden states Float (B, h)."""
        if not texts:
            return []
        logits = self._decoder.logits(states, texts[0].served.row.weights)
        logits = logits[:, : self._tokens]
        # A row is finite if its extremes are. A NaN in the row makes both extremes NaN.
        sound = torch.stack((logits.amin(1), logits.amax(1))).isfinite().all(0).tolist()
        if not all(sound):
            logits = logits.nan_to_num()
        tokens = choose(logits, [text.draw for text in texts])
        pieces = [
            text.wrote(token, self._ends) if finite else None
            for text, token, finite in zip(texts, tokens, sound, strict=True)
        ]
        return [
            _no_numbers()
            if piece is None
            else Step(piece if piece.text or piece.done else None, None if piece.done else text)
            for text, piece in zip(texts, pieces, strict=True)
        ]

    def _updates(self, parts: Sequence[Part]) -> list[tuple[str, Update]]:
        """Return the stacked updates, from a cache while the rows stay the same.

        The cache holds two passes: texts being written, and prompts read between their tokens.
        """
        rows = tuple(part.row for part in parts)
        cache = self._stacked
        found = next((each for each in cache if each[0] == rows), None) or (rows, stacked(rows))
        self._stacked = [found, *(each for each in cache if each is not found)][:2]
        return found[1]

    def _load(self, folder: Path) -> _Served:
        adapter = opened(folder, "generation", self._decoder.backbone.sha256)
        row = adapter.method.row(self._decoder.stack, adapter.tensors)
        return _Served(
            row.to(self._device, self._dtype),
            str(adapter.origin.get("bundle_id", "")),
            0 if row.weights is None else next(self._numbers),
        )

    @torch.inference_mode()
    def _take_over(self) -> None:
        """Replace the decoder's attention by ours, if both give the same logits."""
        stack = self._decoder.stack
        ids = self._decoder.tokenizer(SENTENCE)["input_ids"]
        states = stack(input_ids=torch.tensor([ids], device=self._device)).last_hidden_state
        expected = self._decoder.logits(states[0, -1])
        stack.config._attn_implementation = ATTENTION
        cache = Cache.begun(stack, Row(), len(ids), self._dtype)
        try:
            for some in (ids[:-1], ids[-1:]):
                found = self._decoder.logits(advance(stack, [Part(Row(), cache, None, some)])[0])
        except (LookupError, TypeError, RuntimeError):
            found = torch.full_like(expected, torch.nan)
        if not bool((found - expected).abs().max() <= _APART * expected.abs().max()):
            raise InvalidInput(
                "this decoder's attention is of a kind whose rows cannot be shared",
                fix="serve it with an engine made for it, and give that as --upstream",
                subject="decoder",
            )


def _nothing() -> None:
    """Release nothing, for a text without an adapter."""


def _no_numbers() -> SottovoceError:
    return SottovoceError(
        "what the adapter makes of the model is not finite",
        fix="customise again, with a smaller learning rate",
        subject="adapter",
    )
