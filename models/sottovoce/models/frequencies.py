"""Count public words by part of speech, and read the counts back.

The privacy space weighs words by frequency. Protection levels assume that the attacker knows the
frequencies, and the cloud guesses back with the same numbers. All of this must rest on public text.
So the counts are made once, from named sources, and ship.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.core.text.frequencies import PublicCounts
from sottovoce.core.text.tagger import UPOS, Tagger
from sottovoce.core.text.words import Kind, split
from sottovoce.models import corpus as public_text
from sottovoce.models.corpus import Language, Sentence, cut

Progress = Callable[[str, int, int], None]
"""Called with the stage, the amount done and the total."""

FORMAT: Final = "frequencies.v1"
LEAST: Final = 3
"""Words met less often are left out. Only their number is kept."""
MOST_WORDS: Final = 600_000
"""The most words that count from one source. Of a longer source every n-th paragraph is read."""

_HEADER: Final = ("word", "clitic", "tag", "count")
_CHUNK: Final = 2_000
_Key = tuple[str, bool, int]


@dataclass(frozen=True)
class FrequencyTable:
    """Occurrences of words by part of speech, one entry a (word, clitic, tag)."""

    words: tuple[str, ...]
    """In the language's normal form."""
    clitics: NDArray[np.bool_]
    """(n,) whether the entry counts the word as a clitic (the "'s" of "it's")."""
    tags: NDArray[np.uint8]
    """(n,) positions in `UPOS`."""
    counts: NDArray[np.int64]
    """(n,) occurrences."""
    left_out: Mapping[str, int]
    """For each part of speech, occurrences of words that are too rare for an entry."""
    language: Language = field(default_factory=Language)
    """Language of the words."""

    @cached_property
    def _found(self) -> dict[_Key, int]:
        keys = zip(self.words, self.clitics.tolist(), self.tags.tolist(), strict=True)
        return dict(zip(keys, self.counts.tolist(), strict=True))

    def count(self, word: str, tag: str, *, clitic: bool = False) -> int:
        """Return the occurrences of `word` as `tag`; 0 if it is not in the table."""
        return self._found.get((word, clitic, UPOS.index(tag)), 0)

    def normal_form(self, word: str) -> str:
        """Return the form in which ``word`` is counted."""
        return self.language.normal_form(word)


def count_words(
    data: Path, out: Path, tagger: Tagger, language: Language, progress: Progress | None = None
) -> FrequencyTable:
    """Count the sources in `data`, and write `out`/words.tsv.gz and `out`/totals.json.

    Treebanks count with their own tags, other text with the tags of `tagger`. The same data, tagger
    and language give the same bytes.

    Raises:
        InvalidInput: `data` holds no source, or a source is missing.
    """
    found = public_text.find(data)
    counts: Counter[_Key] = Counter()
    read: dict[str, dict[str, int]] = {}
    total = len(found.treebanks) + len(found.texts)
    for name, sentences in found.treebanks.items():
        if progress:
            progress(name, len(read), total)
        met = _count_treebank(sentences(), tagger, language)
        read[name] = {"words": met.total(), "every": 1}
        counts.update(met)
    for name, paragraphs in found.texts.items():
        if progress:
            progress(name, len(read), total)
        text = paragraphs()
        every = math.ceil(sum(line.count(" ") + 1 for line in text) / MOST_WORDS)
        met = _count_text(text[::every], tagger, language)
        read[name] = {"words": met.total(), "every": every}
        counts.update(met)
    if progress:
        progress("writing", total, total)
    out.mkdir(parents=True, exist_ok=True)
    left_out = _write_table(counts, out / "words.tsv.gz")
    totals = {
        "format": FORMAT,
        "language": language.to_dict(),
        "least": LEAST,
        "left_out": {tag: left_out[position] for position, tag in enumerate(UPOS)},
        "sources": read,
    }
    (out / "totals.json").write_text(
        json.dumps(totals, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return load(out)


def load(folder: Path) -> FrequencyTable:
    """Read the table that `count_words` wrote to `folder`.

    Raises:
        NotReady: there is no table.
        DataLoss: it cannot be read.
    """
    table, totals = folder / "words.tsv.gz", folder / "totals.json"
    if not table.is_file() or not totals.is_file():
        raise NotReady(
            f"no word frequencies in {folder}",
            fix="run `sotto-models count-words`, or name the models folder with --models",
            subject="frequencies",
        )
    try:
        about = json.loads(totals.read_text("utf-8"))
        language = Language.from_dict(about["language"])
        with gzip.open(table, "rt", encoding="utf-8", newline="") as file:
            header, *lines = [line.rstrip("\n").split("\t") for line in file]
        if tuple(header) != _HEADER:
            raise ValueError(header)
        words, clitics, tags, counts = zip(*lines, strict=True)
        return FrequencyTable(
            words,
            np.array([clitic == "1" for clitic in clitics]),
            np.array([UPOS.index(tag) for tag in tags], np.uint8),
            np.array(counts, np.int64),
            about["left_out"],
            language,
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataLoss(
            f"the word frequencies in {folder} cannot be read",
            fix="fetch them again, or run `sotto-models count-words`",
            subject="frequencies",
        ) from error


def _write_table(counts: Counter[_Key], path: Path) -> list[int]:
    """Write the common words, and return the number left out by part of speech."""
    by_word: Counter[tuple[str, bool]] = Counter()
    for (word, clitic, _), count in counts.items():
        by_word[word, clitic] += count
    left_out = [0] * len(UPOS)
    lines = ["\t".join(_HEADER)]
    for (word, clitic, tag), count in sorted(counts.items()):
        if by_word[word, clitic] < LEAST:
            left_out[tag] += count
        else:
            lines.append(f"{word}\t{clitic:d}\t{UPOS[tag]}\t{count}")
    packed = io.BytesIO()
    # With a fixed time and no file name, the same counts give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(("\n".join(lines) + "\n").encode())
    path.write_bytes(packed.getvalue())
    return left_out


def _count_treebank(
    sentences: Sequence[Sentence], tagger: Tagger, language: Language
) -> Counter[_Key]:
    """Count given tags. The tagger chooses among several, and its other answers are left out."""
    counts: Counter[_Key] = Counter()
    for _, group in itertools.groupby(sentences, key=lambda sentence: sentence.document):
        pairs = [
            piece
            for sentence in group
            for word, allowed in zip(sentence.words, sentence.allowed, strict=True)
            for piece in cut(word, allowed, language.clitics)
        ]
        chosen = tagger.tag([word for word, _ in pairs]).ids.tolist()
        for (word, allowed), tag in zip(pairs, chosen, strict=True):
            if allowed.bit_count() == 1:
                tag = allowed.bit_length() - 1
            elif not allowed >> tag & 1:
                continue
            for piece in split(word, language.clitics):
                if piece.kind is Kind.WORD:
                    counts[language.normal_form(piece.text), piece.clitic, tag] += 1
    return counts


def _count_text(paragraphs: Iterable[str], tagger: Tagger, language: Language) -> Counter[_Key]:
    counts: Counter[_Key] = Counter()
    for chunk in _chunks(paragraphs):
        found = [word for paragraph in chunk for word in split(paragraph, language.clitics)]
        tags = tagger.tag([word.text for word in found]).ids.tolist()
        for word, tag in zip(found, tags, strict=True):
            if word.kind is Kind.WORD:
                counts[language.normal_form(word.text), word.clitic, tag] += 1
    return counts


def _chunks(paragraphs: Iterable[str]) -> Iterator[list[str]]:
    """Yield groups of paragraphs that keep the tagger busy."""
    chunk: list[str] = []
    size = 0
    for paragraph in paragraphs:
        chunk.append(paragraph)
        size += paragraph.count(" ") + 1
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


LEAST_ON_DEVICE: Final = 30
"""Words met less often are cut off.

Shares replaced and recovered stay as with the whole table, within the error of 4,000 simulated
words."""


def cut_to_device(table: FrequencyTable, listed: Mapping[str, str]) -> PublicCounts:
    """Return the part of ``table`` that a device needs.

    Args:
        table: public counts.
        listed: words with a reading from a list, and this reading.
    """
    totals: Counter[tuple[str, bool]] = Counter()
    entries = list(zip(table.words, table.clitics.tolist(), strict=True))
    for entry, count in zip(entries, table.counts.tolist(), strict=True):
        totals[entry] += count
    kept = np.array([totals[entry] >= LEAST_ON_DEVICE for entry in entries])
    rare = [count for count in totals.values() if count < LEAST_ON_DEVICE]
    return PublicCounts(
        language=table.language.code,
        accents=table.language.accents,
        words=tuple(word for word, keep in zip(table.words, kept, strict=True) if keep),
        clitics=table.clitics[kept],
        tags=table.tags[kept],
        counts=table.counts[kept],
        tail=round(sum(rare) / max(1, len(rare)), 3),
        rare=len(rare),
        listed=dict(sorted(listed.items())),
    )
