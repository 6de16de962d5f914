"""Read public passages, and make the denoiser's examples: clean embeddings and noisy answers.

The weights ship, so passages come only from texts with a licence for that. The default set is the
part of the project's data folder that its README marks as usable. A provider names other files.

Both embeddings come from the backbone and take most of the time, so they are kept in shards on
disk. A stopped run continues with the next shard. The hash of all inputs names a folder, so a
change never meets old shards. One network serves all etas, so each passage gets noise at an eta
drawn from the whole range.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.files import in_place_of
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.denoiser import space_sketch
from sottovoce.core.privacy.noise import Floats2d

LONGEST: Final = 128
"""The most tokens of a passage; the rest is cut off. The network has no absolute positions."""

_SHARD: Final = 2_048
_TOKENS: Final = 2_048
"""Tokens, padding included, in a forward pass."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, the amount done and the total."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Token ids, without special tokens: passage i is ``flat[ends[i-1]:ends[i]]``."""

    flat: NDArray[np.int32]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> NDArray[np.int32]:
        return self.flat[(self.ends[place - 1] if place else 0) : self.ends[place]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Ints1d (passages,), the number of tokens of each."""
        return np.diff(self.ends, prepend=0)

    @property
    def sha256(self) -> str:
        """SHA-256 of the numbers."""
        return hashlib.sha256(self.flat.tobytes() + self.ends.tobytes()).hexdigest()

    def first(self, n: int) -> Passages:
        """Return the first ``n`` passages."""
        return Passages(self.flat[: self.ends[n - 1]] if n else self.flat[:0], self.ends[:n])


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a cloud: eta Floats1d (passages,), and e_n Floats2d (passages, width)."""

    eta: NDArray[np.float32]
    embeddings: NDArray[np.float16]


def tokenize(tokenizer: Any, texts: Sequence[str]) -> Passages:
    """Return the texts as token ids, without empty texts."""
    rows: list[list[int]] = []
    for start in range(0, len(texts), 5_000):
        found = tokenizer(list(texts[start : start + 5_000]), add_special_tokens=False)["input_ids"]
        rows += [ids[:LONGEST] for ids in found if ids]
    flat = np.concatenate([np.array(ids, np.int32) for ids in rows])
    return Passages(flat, np.cumsum([len(ids) for ids in rows]))


def clean(
    passages: Passages, encoder: Encoder, folder: Path, progress: Progress | None = None
) -> NDArray[np.float16]:
    """Return clean embeddings e_c, Floats2d (passages, width), kept in ``folder``."""

    def make(places: range) -> NDArray[np.float32]:
        tokens = [encoder.token_embeddings(passages[place].tolist()) for place in places]
        return encode(encoder, tokens)

    shards = [*_shards(folder, "clean embeddings", len(passages), make, progress)]
    return np.concatenate(shards).astype(np.float16)


def answers(
    passages: Passages,
    encoder: Encoder,
    posterior: PosteriorMean,
    space: Floats2d,
    eta_range: tuple[float, float],
    folder: Path,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Answers:
    """Return noisy answers, kept in ``folder``. Their log etas are uniform over ``eta_range``.

    Args:
        passages: n of them.
        posterior: the first step of the cloud.
        space: Floats2d (tokens, r), rows of length 1.
        eta_range: lowest and highest.
        progress: called after each shard.
    """
    low, high = np.log(eta_range)

    def make(places: range) -> NDArray[np.float32]:
        random = np.random.default_rng([seed, places.start])
        etas = np.exp(random.uniform(low, high, len(places))).astype(np.float32)
        ids = np.concatenate([passages[place] for place in places])
        lengths = passages.lengths[places.start : places.stop]
        slopes = np.repeat(etas, lengths)
        steps = noise.draw(random, len(ids), space.shape[1], 1.0) / slopes[:, None]
        with torch.autocast(encoder.device.type, dtype=torch.bfloat16):
            means = posterior(space[ids] + steps, torch.from_numpy(slopes))
        found = torch.split(means.float(), lengths.tolist())
        return np.column_stack([etas, encode(encoder, found)])

    shards = [*_shards(folder, "noisy answers", len(passages), make, progress)]
    table = np.concatenate(shards)
    return Answers(table[:, 0].copy(), table[:, 1:].astype(np.float16))


def encode(encoder: Encoder, inputs: Sequence[Tensor]) -> NDArray[np.float32]:
    """Return the backbone's answers, Floats2d (inputs, width), in batches of like length."""
    found = np.empty((len(inputs), encoder.width), np.float32)
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
    start = 0
    with torch.autocast(encoder.device.type, dtype=torch.bfloat16):
        while start < len(order):
            end = start + 1
            while end < len(order) and (end - start + 1) * len(inputs[order[end]]) <= _TOKENS:
                end += 1
            places = order[start:end]
            found[places] = encoder.encode([inputs[place] for place in places]).numpy()
            start = end
    return found


def named(folder: Path, what: str, **facts: Any) -> Path:
    """Return the folder for numbers that depend on ``facts``."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return folder / f"{what}-{digest[:12]}"


def space_facts(tokens: Floats2d) -> dict[str, Any]:
    """Return facts that distinguish one privacy space from another."""
    return {"dimensions": tokens.shape[1], "sketch": space_sketch(tokens)}


def _shards(
    folder: Path,
    stage: str,
    n: int,
    make: Callable[[range], NDArray[np.float32]],
    progress: Progress | None,
) -> Iterator[NDArray[np.float32]]:
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, n, _SHARD):
        places = range(start, min(start + _SHARD, n))
        file = folder / f"{start:08}-{places.stop:08}.npy"
        if not file.is_file():
            with in_place_of(file) as aside, aside.open("wb") as opened:
                np.save(opened, make(places).astype(np.float16))
        yield np.load(file, allow_pickle=False).astype(np.float32)
        if progress:
            progress(stage, places.stop, n)


USABLE: Final = {
    "ud_ewt/train.conllu.gz": 20_000,
    "pos_masc/all.jsonl.gz": 40_000,
    "wnut17/train.jsonl.gz": 20_000,
    "text/openstax-introduction-anthropology.txt.gz": 20_000,
    "text/openstax-introduction-business.txt.gz": 20_000,
    "text/openstax-principles-economics-bundle.txt.gz": 20_000,
    "text/us-presidential.txt.gz": 20_000,
    "text/wikitext2-valid.txt.gz": 20_000,
    "text/wikitext2-test.txt.gz": 20_000,
    "text/novels-sample.txt.gz": 30_000,
}
"""Files of the data folder that may train weights, and the most sentences from each.

The film reviews may too, but then figures on the film sentences of SST-2 would not be honest."""

_END: Final = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9])")
_LETTER: Final = re.compile(r"[^\W\d_]")
_BEFORE_MARK: Final = re.compile(r" (?=[,.;:!?%)\]]|n't\b|'(?:s|re|ve|ll|d|m)\b)")


def read(paths: Sequence[Path]) -> list[list[str]]:
    """Read the sentences of each document in turn, without repetitions.

    Args:
        paths: the project's data folder, or files: ``.txt`` (a paragraph a line), ``.tsv`` (column
            ``text``), ``.jsonl`` (``text`` or ``tokens``), ``.conllu``; each may end in ``.gz``.

    Raises:
        InvalidInput: a file is missing or of another kind, or no file holds a sentence.
    """
    files: list[tuple[Path, int]] = []
    for path in paths:
        if path.is_dir():
            files += [(path / name, most) for name, most in USABLE.items()]
        else:
            files.append((path, 1 << 62))
    met: set[str] = set()
    documents = []
    for path, most in files:
        everything = [*_paragraphs(path)]
        sentences = sum(len(paragraph) for paragraph in everything)
        # A long file lends sentences from all over, not only from its beginning.
        keep = min(1.0, most / max(1, sentences))
        for place, paragraph in enumerate(everything):
            if int(place * keep) == int((place + 1) * keep):
                continue
            fresh = [sentence for sentence in paragraph if sentence not in met]
            met.update(fresh)
            if fresh:
                documents.append(fresh)
    if not documents:
        raise InvalidInput(
            "there are no sentences in the data", fix="name text files with --data", subject="data"
        )
    return documents


def passages(documents: Sequence[Sequence[str]], seed: int = 0) -> list[str]:
    """Return passages in random order: mostly single sentences, some with the next sentences."""
    random = np.random.default_rng(seed)
    found = []
    for sentences in documents:
        place = 0
        while place < len(sentences):
            together = 1 if random.random() < 0.85 else int(random.integers(2, 6))
            found.append(" ".join(sentences[place : place + together]))
            place += together
    return [found[i] for i in random.permutation(len(found))]


def _paragraphs(path: Path) -> Iterator[list[str]]:
    kind = "".join(path.suffixes).removesuffix(".gz")
    if not path.is_file():
        raise InvalidInput(f"no text at {path}", fix="check --data", subject="data")
    if kind not in _READERS:
        raise InvalidInput(
            f"{path.name} is of no kind this command reads",
            fix=f"use files ending in {', '.join(_READERS)}, or any of them with .gz",
            subject="data",
        )
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
        yield from filter(None, _READERS[kind](lines))


def _text(lines: Iterator[str]) -> Iterator[list[str]]:
    return map(_sentences, lines)


def _columns(lines: Iterator[str]) -> Iterator[list[str]]:
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        yield _sentences(row["text"])


def _json(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        entry = json.loads(line)
        joined = entry["text"] if "text" in entry else " ".join(entry["tokens"])
        yield [found] if (found := _tidy(joined)) else []


def _treebank(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("# text = "):
            yield [found] if (found := _tidy(line[9:])) else []


_READERS: Final = {".txt": _text, ".tsv": _columns, ".jsonl": _json, ".conllu": _treebank}


def _sentences(paragraph: str) -> list[str]:
    return [found for piece in _END.split(_tidy(paragraph)) if (found := _tidy(piece))]


def _tidy(text: str) -> str:
    """Remove the marks of tokenised corpora. Return "" if there are hardly any letters."""
    for mark in ",.-":
        text = text.replace(f" @{mark}@ ", mark)  # WikiText's "1 @,@ 000"
    text = _BEFORE_MARK.sub("", text.replace("<unk>", " ").replace("( ", "("))
    text = " ".join(text.split())
    return text if len(_LETTER.findall(text)) >= 6 and not text.startswith("=") else ""
