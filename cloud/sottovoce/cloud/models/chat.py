"""How turns of a conversation become the token ids a decoder was trained on.

Why it is here: trainer and engine must lay out a conversation alike, and what stands in a turn
must stay in it: text that spells a special token (`<|im_end|>`, say) is read as those characters,
so that a document cannot end the turn it stands in and begin another.

Models that bring a chat template are asked in it; others in a plain one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, Self

from jinja2.exceptions import TemplateError

from sottovoce.core.errors import InvalidInput

__all__ = ["PLAIN", "Chat", "Role", "Turn"]

Role = Literal["system", "user", "assistant", "tool"]

PLAIN: Final = (
    "{% for turn in messages %}"
    "{% if turn.role != 'system' %}{{ turn.role | capitalize }}:\n{% endif %}"
    "{{ turn.content }}"
    "{{ eos_token if turn.role == 'assistant' else '' }}\n\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)
"""For a model without a template of its own (a base model): roles on lines of their own."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Who says what."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """Lays out turns.

    Attributes:
        tokenizer: of the decoder; a fast one.
        template: Jinja, run by `transformers` in a sandbox.
        special: finds what the tokenizer reads as special tokens.
        front: ids before everything, where the template does not write them itself.
        end: id of the token that ends an answer in training.
        ends: ids that end an answer.
    """

    tokenizer: Any
    template: str
    special: re.Pattern[str]
    front: tuple[int, ...]
    end: int
    ends: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """The layout that ``tokenizer`` brings, or the plain one.

        Raises:
            InvalidInput: nothing ends an answer, or the template cannot be used.
        """
        eos = tokenizer.eos_token_id
        special = {i: t.content for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        if eos is None or min(map(len, special.values()), default=0) < 2:
            raise _refused("the tokenizer has no token that ends an answer, or one of a letter")
        own = tokenizer.chat_template
        template = own if isinstance(own, str) else PLAIN
        first = [] if template is own else tokenizer("a")["input_ids"][:1]
        front = tuple(i for i in first if i == tokenizer.bos_token_id)
        pattern = re.compile("|".join(map(re.escape, special.values())))
        chat = cls(tokenizer, template, pattern, front, eos, frozenset({eos}))
        mark = _mark()
        turns = [Turn("user", "a"), Turn("assistant", mark)]
        closing = chat._render([*turns, Turn("user", "b")], "", answer=False).partition(mark)[2]
        end = next((i for i in chat._ids(closing) if i in special), eos)
        return cls(tokenizer, template, pattern, front, end, frozenset({eos, end}))

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Ids up to where the model's answer begins.

        Args:
            turns: at least one; the last is what is answered.

        Raises:
            InvalidInput: the template refuses such turns.
        """
        mark = _mark()
        return [*self.front, *self._ids(self._render(turns, mark, answer=True), mark)]

    def opening(self, text: str) -> list[int]:
        """Ids of a text that is to be continued as it stands."""
        mark = _mark()
        first = self.tokenizer("a")["input_ids"][:1]
        front = [i for i in first if i == self.tokenizer.bos_token_id]
        return [*front, *self._ids(self._cut(text, mark), mark)]

    def answer(self, text: str) -> list[int]:
        """Ids of an answer and of the token that ends it: what follows `prompt` in training."""
        mark = _mark()
        return [*self._ids(self._cut(text, mark), mark), self.end]

    def text(self, ids: Sequence[int]) -> str:
        """An answer's ids as text, without special tokens."""
        found: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return found

    def _render(self, turns: Sequence[Turn], mark: str, *, answer: bool) -> str:
        """The conversation as text; ``mark`` stands where special tokens are to be broken."""
        told = [{"role": turn.role, "content": self._cut(turn.text, mark)} for turn in turns]
        try:
            found: str = self.tokenizer.apply_chat_template(
                told, chat_template=self.template, tokenize=False, add_generation_prompt=answer
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise _refused("the model's chat template refuses these turns") from error
        return found

    def _cut(self, text: str, mark: str) -> str:
        """``text`` with ``mark`` inside of whatever would be read as a special token."""
        parts, at = [], 0
        while mark and (found := self.special.search(text, at)):
            parts.append(text[at : found.start() + 1])
            at = found.start() + 1
        return mark.join([*parts, text[at:]])

    def _ids(self, text: str, mark: str = "") -> list[int]:
        # All parts in one call: a text may be nothing but special tokens.
        parts = text.split(mark) if mark else [text]
        return list(chain(*self.tokenizer(parts, add_special_tokens=False)["input_ids"]))


def _mark() -> str:
    return f"\ue000{secrets.token_hex(8)}\ue001"


def _refused(problem: str) -> InvalidInput:
    return InvalidInput(
        problem,
        fix="begin with a turn of the user's and alternate, with at most one system turn first; "
        "or give another decoder",
        subject="turns",
    )
