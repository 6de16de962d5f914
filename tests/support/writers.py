"""Adapters that write, with random numbers, and what each must write alone.

That is found by the model that training uses, one text at a time, without a cache, padding or other
rows; `transformers` itself is asked where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sottovoce.cloud.models import adapters, decoder
from sottovoce.cloud.models.decoder import Decoder, TextGenerator
from sottovoce.cloud.models.methods import Full, Method
from sottovoce.cloud.serving.generator import Asked, Done, Generator, Piece, Sampling
from sottovoce.cloud.serving.model_thread import DeviceThread
from sottovoce.cloud.store.adapters import AdapterFiles


@dataclass(frozen=True)
class Writer:
    """An adapter on disk, and the model it was taken out of; a decoder as it is without one."""

    spent: Decoder
    model: TextGenerator | None = None
    folder: Path | None = None

    @property
    def files(self) -> AdapterFiles | None:
        """The adapter as the registry names it."""
        return None if self.folder is None else AdapterFiles.of(self.folder)

    def alone(self, prompt: str, tokens: int) -> str:
        """Return the text written after ``prompt``, however it ends."""
        return shown(self.spent, self.ids(self.spent.chat.opening(prompt), tokens))

    @torch.no_grad()
    def ids(self, prompt: Sequence[int], tokens: int) -> list[int]:
        """The likeliest tokens, one after the other."""
        found: list[int] = []
        for _ in range(tokens):
            given = torch.tensor([[*prompt, *found]])
            if self.model is None:
                states = self.spent.stack(input_ids=given).last_hidden_state
            else:
                states = self.model.states(given, torch.ones_like(given))
            logits = self.spent.logits(states[0, -1])
            found.append(int(logits[: self.spent.tokens].argmax()))
            if found[-1] in self.spent.ends:
                break
        return found

    def generated(self, prompt: str, tokens: int) -> str:
        """The same by `transformers`."""
        ids = self.spent.chat.opening(prompt)
        given: dict[str, Any] = {"input_ids": torch.tensor([ids])}
        if self.model is not None and self.model.adapted.beside:
            before = next(iter(self.model.adapted.beside.values()))
            after = self.spent.stack.get_input_embeddings()(given["input_ids"])
            given = {"inputs_embeds": torch.cat([before[None], after], 1)}
        whole = self.spent.model.generate(
            **given,
            attention_mask=torch.ones(next(iter(given.values())).shape[:2]),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=sorted(self.spent.ends),
            pad_token_id=0,
            suppress_tokens=list(range(self.spent.tokens, self.spent.vocabulary)),
        )[0]
        return shown(self.spent, whole[len(ids) if "input_ids" in given else 0 :].tolist())


def shown(spent: Decoder, ids: list[int]) -> str:
    """A text as readers see it."""
    return spent.chat.text(ids).rstrip("\ufffd")


def made(
    bones: Path, folder: Path, method: Method | None, *, seed: int = 0, bundle_id: str = ""
) -> Writer:
    """Saves an adapter of ``method`` with random numbers in all it trains."""
    spent = decoder.load(str(bones))
    if method is None:
        return Writer(spent)
    torch.manual_seed(seed)
    model = TextGenerator(spent, method).eval()
    size = 0.02 if isinstance(method, Full) else 0.3
    with torch.no_grad():
        for parameter in model.trained().values():
            parameter += size * torch.randn_like(parameter)
    folder.parent.mkdir(parents=True, exist_ok=True)
    adapters.save(folder, model, (), spent.backbone, {"bundle_id": bundle_id})
    return Writer(spent, model, folder)


@contextmanager
def writing(bones: Path, *, batch: int = 64, **options: Any) -> Iterator[Generator]:
    """Run a generator on its own thread."""
    with closing(DeviceThread(batch=batch)) as thread:
        yield Generator(thread, decoder.load(str(bones)), **options)


def short(prompt: str, tokens: int = 24, *stops: str, **sampling: Any) -> Asked:
    """A text to continue."""
    return Asked(prompt, Sampling(max_tokens=tokens, **sampling), stops)


def read(pieces: Iterator[Piece] | Any) -> tuple[str, Done]:
    """All of a text, and how it ended: once, with its last piece."""
    found = list(pieces)
    *before, last = found
    assert last.done is not None
    assert all(piece.text and piece.done is None for piece in before)
    return "".join(piece.text for piece in found), last.done
