"""Turn a conversation into the token ids that a decoder was trained on.

Training and generation must lay out a conversation in the same way. Text in a turn must stay in
the turn. If it spells a special token, such as `<|im_end|>`, it is read as those characters.
Otherwise a document could end its turn and begin another.

The model's chat template is used if there is one, and a plain layout otherwise.
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

Role = Literal["system", "user", "assistant", "tool"]

PLAIN: Final = (
    "{% for turn in messages %}"
    "{% if turn.role != 'system' %}{{ turn.role | capitalize }}:\n{% endif %}"
    "{{ turn.content }}"
    "{{ eos_token if turn.role == 'assistant' else '' }}\n\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:\n{% endif %}"
)
"""The layout for a model without a template (a base model): roles on separate lines."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A role and its text."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """Lays out turns.

    Attributes:
        template: Jinja, run by `transformers` in a sandbox.
        special: matches the texts that the tokenizer reads as special tokens.
        front: ids before the conversation, unless the template writes them.
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
        """Return the layout of ``tokenizer``, or the plain layout.

        Raises:
            InvalidInput: no token ends an answer, or the template is unusable.
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
        """Return the ids up to the beginning of the model's answer.

        Args:
            turns: at least one; the model answers the last one.

        Raises:
            InvalidInput: the template refuses these turns.
        """
        mark = _mark()
        return [*self.front, *self._ids(self._render(turns, mark, answer=True), mark)]

    def opening(self, text: str) -> list[int]:
        """Return the ids of a text to be continued."""
        mark = _mark()
        first = self.tokenizer("a")["input_ids"][:1]
        front = [i for i in first if i == self.tokenizer.bos_token_id]
        return [*front, *self._ids(self._cut(text, mark), mark)]

    def answer(self, text: str) -> list[int]:
        """Return the ids of an answer and its end token, which follow `prompt` in training."""
        mark = _mark()
        return [*self._ids(self._cut(text, mark), mark), self.end]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer's ids, without special tokens."""
        found: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return found

    def _render(self, turns: Sequence[Turn], mark: str, *, answer: bool) -> str:
        """Return the conversation as text; ``mark`` breaks up special tokens."""
        told = [{"role": turn.role, "content": self._cut(turn.text, mark)} for turn in turns]
        try:
            found: str = self.tokenizer.apply_chat_template(
                told, chat_template=self.template, tokenize=False, add_generation_prompt=answer
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise _refused("the model's chat template refuses these turns") from error
        return found

    def _cut(self, text: str, mark: str) -> str:
        """Return ``text`` with ``mark`` inside each string that spells a special token."""
        parts, at = [], 0
        while mark and (found := self.special.search(text, at)):
            parts.append(text[at : found.start() + 1])
            at = found.start() + 1
        return mark.join([*parts, text[at:]])

    def _ids(self, text: str, mark: str = "") -> list[int]:
        # All parts in one call, because a text may consist of special tokens only.
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
