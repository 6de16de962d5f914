"""Counts public words by part of speech, and reads the counts back.

Why it is here: the privacy space weighs words by how common they are, protection levels are set
against an attacker who knows how common they are, and the cloud guesses back with the same numbers.
All of that must rest on public text, so the counts are made once, from named sources, and ship.
"""

import csv
import gzip
import io
import itertools
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.tagger.augment import cut
from sottovoce.cloud.tagger.treebanks import Sentence, read_conllu, read_masc
from sottovoce.edge.errors import DataLoss, InvalidInput, NotReady
from sottovoce.edge.tagger import UPOS, Tagger
from sottovoce.edge.words import Kind, split

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

FORMAT: Final = "frequencies.v1"
LEAST: Final = 3
"""Words met less often are left out, and only their number is kept."""
MOST_WORDS: Final = 600_000
"""No source counts for more: of a longer one every n-th paragraph is read."""

_HEADER: Final = ("word", "clitic", "tag", "count")
_CHUNK: Final = 2_000
_TEXTBOOKS: Final = (
    *("introduction-anthropology", "introduction-business", "principles-economics-bundle"),
)
_Key = tuple[str, bool, int]


@dataclass(frozen=True)
class FrequencyTable:
    """How often words were met, by part of speech; one entry a (word, clitic, tag)."""

    words: tuple[str, ...]
    """Small letters without accents, as the default backbone's tokenizer writes them."""
    clitics: NDArray[np.bool_]
    """(n,) whether the entry counts the word as a clitic (the "'s" of "it's")."""
    tags: NDArray[np.uint8]
    """(n,) positions in `UPOS`."""
    counts: NDArray[np.int64]
    """(n,) times met."""
    left_out: Mapping[str, int]
    """For each part of speech, the words met that are in no entry because they are rare."""

    @cached_property
    def _found(self) -> dict[_Key, int]:
        keys = zip(self.words, self.clitics.tolist(), self.tags.tolist(), strict=True)
        return dict(zip(keys, self.counts.tolist(), strict=True))

    def count(self, word: str, tag: str, *, clitic: bool = False) -> int:
        """Times `word` was met as `tag`; 0 where it is not in the table."""
        return self._found.get((word, clitic, UPOS.index(tag)), 0)

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


def normal_form(word: str) -> str:
    """The word in small letters and without accents, as an uncased BERT vocabulary has it.

    >>> normal_form("Café’s")
    "cafe's"
    """
    apart = unicodedata.normalize("NFD", word.replace("’", "'"))
    # Letter by letter, as the tokenizer does: no letter depends on its place in the word.
    return "".join(c.lower() for c in apart if unicodedata.category(c) != "Mn")


def count_words(
    data: Path, out: Path, tagger: Tagger, progress: Progress | None = None
) -> FrequencyTable:
    """Counts the sources in `data` and writes `out`/words.tsv.gz and `out`/totals.json.

    The treebanks count with the tags people gave them, other text with those of `tagger`. The same
    data and tagger give the same bytes.

    Raises:
        InvalidInput: `data` holds none of the sources, or one of them is missing.
    """
    counts: Counter[_Key] = Counter()
    sources: dict[str, dict[str, int]] = {}
    texts = _texts(data)
    total = len(texts) + 2
    for done, (name, sentences) in enumerate(_treebanks(data)):
        if progress:
            progress(name, done, total)
        found = _count_treebank(sentences, tagger)
        sources[name] = {"words": found.total(), "every": 1}
        counts.update(found)
    for done, (name, paragraphs) in enumerate(texts.items(), start=2):
        if progress:
            progress(name, done, total)
        every = math.ceil(sum(text.count(" ") + 1 for text in paragraphs) / MOST_WORDS)
        found = _count_text(paragraphs[::every], tagger)
        sources[name] = {"words": found.total(), "every": every}
        counts.update(found)
    if progress:
        progress("writing", total, total)
    out.mkdir(parents=True, exist_ok=True)
    left_out = _write_table(counts, out / "words.tsv.gz")
    totals = {
        "format": FORMAT,
        "least": LEAST,
        "left_out": {tag: left_out[position] for position, tag in enumerate(UPOS)},
        "sources": sources,
    }
    (out / "totals.json").write_text(json.dumps(totals, indent=2) + "\n", encoding="utf-8")
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
            fix="run `sotto-cloud count-words`, or name the models folder with --models",
            subject="frequencies",
        )
    try:
        left_out = json.loads(totals.read_text("utf-8"))["left_out"]
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
            left_out,
        )
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise DataLoss(
            f"the word frequencies in {folder} cannot be read",
            fix="fetch them again, or run `sotto-cloud count-words`",
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


def _treebanks(data: Path) -> Iterator[tuple[str, list[Sentence]]]:
    web = data / "ud_ewt" / "train.conllu.gz"
    yield "ud_ewt", read_conllu(web)
    yield "pos_masc", read_masc(data / "pos_masc" / "all.jsonl.gz", web)


def _count_treebank(sentences: Sequence[Sentence], tagger: Tagger) -> Counter[_Key]:
    """Tags as given; where several are allowed the tagger chooses, and what it cannot is left."""
    counts: Counter[_Key] = Counter()
    for _, group in itertools.groupby(sentences, key=lambda sentence: sentence.document):
        pairs = [
            piece
            for sentence in group
            for word, allowed in zip(sentence.words, sentence.allowed, strict=True)
            for piece in cut(word, allowed)
        ]
        chosen = tagger.tag([word for word, _ in pairs]).ids.tolist()
        for (word, allowed), tag in zip(pairs, chosen, strict=True):
            if allowed.bit_count() == 1:
                tag = allowed.bit_length() - 1
            elif not allowed >> tag & 1:
                continue
            for piece in split(word):
                if piece.kind is Kind.WORD:
                    counts[normal_form(piece.text), piece.clitic, tag] += 1
    return counts


def _texts(data: Path) -> dict[str, list[str]]:
    """Paragraphs of each source whose words nobody has tagged."""
    text = data / "text"
    sources = {
        "openstax": [text / f"openstax-{book}.txt.gz" for book in _TEXTBOOKS],
        "us-presidential": [text / "us-presidential.txt.gz"],
        "novels-sample": [text / "novels-sample.txt.gz"],
        "wikitext2": [text / f"wikitext2-{part}.txt.gz" for part in ("test", "valid")],
    }
    found = {name: [*_paragraphs(paths)] for name, paths in sources.items()}
    found["wikitext2"] = [_untokenised(line) for line in found["wikitext2"]]
    with _open(data / "movie_reviews" / "train.tsv.gz") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        found["movie_reviews"] = [row["text"] for row in rows]
    with _open(data / "wnut17" / "train.jsonl.gz") as file:
        found["wnut17"] = [" ".join(json.loads(line)["tokens"]) for line in file]
    return found


def _paragraphs(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        with _open(path) as file:
            yield from filter(None, map(str.strip, file))


def _untokenised(line: str) -> str:
    """WikiText marks inner punctuation and hides rare words: "1 @,@ 000 <unk>"."""
    for mark in ",.-":
        line = line.replace(f" @{mark}@ ", mark)
    return line.replace("<unk>", " ")


def _open(path: Path) -> io.TextIOBase:
    if not path.is_file():
        raise InvalidInput(
            f"no text at {path}",
            fix="name the data folder with --data; the model card says what it holds",
            subject="data",
        )
    return gzip.open(path, "rt", encoding="utf-8", newline="\n")


def _count_text(paragraphs: Iterable[str], tagger: Tagger) -> Counter[_Key]:
    counts: Counter[_Key] = Counter()
    for chunk in _chunks(paragraphs):
        found = [word for paragraph in chunk for word in split(paragraph)]
        tags = tagger.tag([word.text for word in found]).ids.tolist()
        for word, tag in zip(found, tags, strict=True):
            if word.kind is Kind.WORD:
                counts[normal_form(word.text), word.clitic, tag] += 1
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
