"""Counts public words by part of speech, and reads the counts back.

Why it is here: the privacy space weighs words by how common they are, protection levels are set
against an attacker who knows how common they are, and the cloud guesses back with the same numbers.
All of that must rest on public text, so the counts are made once, from named sources, and ship.
"""

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
from sottovoce.core.text.tagger import UPOS, Tagger
from sottovoce.core.text.words import Kind, split
from sottovoce.models.corpus import sources as public_text
from sottovoce.models.corpus.augment import cut
from sottovoce.models.corpus.language import Language
from sottovoce.models.corpus.treebanks import Sentence

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

FORMAT: Final = "frequencies.v1"
LEAST: Final = 3
"""Words met less often are left out, and only their number is kept."""
MOST_WORDS: Final = 600_000
"""No source counts for more: of a longer one every n-th paragraph is read."""

_HEADER: Final = ("word", "clitic", "tag", "count")
_CHUNK: Final = 2_000
_Key = tuple[str, bool, int]


@dataclass(frozen=True)
class FrequencyTable:
    """How often words were met, by part of speech; one entry a (word, clitic, tag)."""

    words: tuple[str, ...]
    """In the language's normal form."""
    clitics: NDArray[np.bool_]
    """(n,) whether the entry counts the word as a clitic (the "'s" of "it's")."""
    tags: NDArray[np.uint8]
    """(n,) positions in `UPOS`."""
    counts: NDArray[np.int64]
    """(n,) times met."""
    left_out: Mapping[str, int]
    """For each part of speech, the words met that are in no entry because they are rare."""
    language: Language = field(default_factory=Language)
    """Whose words they are."""

    @cached_property
    def _found(self) -> dict[_Key, int]:
        keys = zip(self.words, self.clitics.tolist(), self.tags.tolist(), strict=True)
        return dict(zip(keys, self.counts.tolist(), strict=True))

    def count(self, word: str, tag: str, *, clitic: bool = False) -> int:
        """Times `word` was met as `tag`; 0 where it is not in the table."""
        return self._found.get((word, clitic, UPOS.index(tag)), 0)

    def normal_form(self, word: str) -> str:
        """The form in which ``word`` is counted."""
        return self.language.normal_form(word)

    def by_tag(self, word: str, *, clitic: bool = False) -> NDArray[np.int64]:
        """Times `word` was met as each part of speech, shape (17,) in the order of `UPOS`."""
        found = [self._found.get((word, clitic, tag), 0) for tag in range(len(UPOS))]
        return np.array(found, np.int64)

    def prior(
        self, words: Sequence[str], tag: str | None = None, *, clitic: bool = False
    ) -> NDArray[np.float64]:
        """Share of each of `words` among them all, as `tag` or as anything; sums to 1.

        Shape (n_words,). Half an occurrence is added to each word, so none is thought impossible.
        """
        found = np.array([self.by_tag(word, clitic=clitic) for word in words], float)
        chosen = found.sum(axis=1) if tag is None else found[:, UPOS.index(tag)]
        smoothed = chosen + 0.5
        return np.asarray(smoothed / smoothed.sum(), np.float64)


def count_words(
    data: Path, out: Path, tagger: Tagger, language: Language, progress: Progress | None = None
) -> FrequencyTable:
    """Counts the sources in `data` and writes `out`/words.tsv.gz and `out`/totals.json.

    The treebanks count with the tags people gave them, other text with those of `tagger`. The same
    data, tagger and language give the same bytes.

    Raises:
        InvalidInput: `data` holds none of the sources, or one of them is missing.
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
    """Reads what `count_words` wrote to `folder`.

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
    """Writes the common words; returns for each part of speech how many it left out."""
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
    # A fixed time and no file name: the same counts give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(("\n".join(lines) + "\n").encode())
    path.write_bytes(packed.getvalue())
    return left_out


def _count_treebank(
    sentences: Sequence[Sentence], tagger: Tagger, language: Language
) -> Counter[_Key]:
    """Tags as given; where several are allowed the tagger chooses, and what it cannot is left."""
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
    """Paragraphs in turn, enough at once to keep the tagger busy."""
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
