"""Describe a language, read public texts and treebanks, and join sentences into varied passages.

No other module depends on one language. A bundle for another language needs a description, text to
count words in, a tagger, and a backbone that knows the words.

The English Web Treebank names universal parts of speech. MASC names Penn tags, and some of these
stand for several universal ones (IN: "of the house", "if it rains"). A word of MASC keeps the set
of its possible tags, as counted in the first treebank. The loss asks for any tag of the set, and
the network settles the rest.

Treebanks are cut and spelt with care. A device reads messages without capitals or full stops, cut
by `words.split`. So each epoch changes every sentence in another way.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self, cast

from numpy.random import Generator

from sottovoce.core.errors import DataLoss, InvalidInput, NotFound
from sottovoce.core.privacy.surrogates import fill, layout
from sottovoce.core.text import frequencies, words
from sottovoce.core.text.tagger import UPOS


@dataclass(frozen=True, slots=True)
class Language:
    """One language, as the builder sees it. Without arguments, an unknown one."""

    code: str = "und"
    """BCP 47 code, for example "en" or "de"."""
    clitics: tuple[str, ...] = ()
    """Endings that count as words, in small letters, with the typewriter's apostrophe."""
    accents: bool = False
    """Whether words that differ only in accents are counted apart."""
    carriers: tuple[tuple[str | None, ...], ...] = ((None, "."),)
    """Neutral sentences, cut into words. None marks the place of an unknown word to tag."""

    def normal_form(self, word: str) -> str:
        """Return the form in which ``word`` is counted.

        It has small letters and a plain apostrophe. Accents stay only if the language keeps them.

        >>> Language().normal_form("Café’s"), Language(accents=True).normal_form("Schön")
        ("cafe's", 'schön')
        """
        return frequencies.normal_form(word, accents=self.accents)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read the output of `to_dict`.

        Raises:
            ValueError, TypeError, KeyError: it is no description.
        """
        found = cls(
            code=str(raw["code"]),
            clitics=tuple(str(ending) for ending in raw["clitics"]),
            accents=bool(raw["accents"]),
            carriers=tuple(tuple(carrier) for carrier in raw["carriers"]),
        )
        if any(ending != found._plain(ending) for ending in found.clitics):
            raise ValueError("clitics")
        if not found.carriers or any(carrier.count(None) != 1 for carrier in found.carriers):
            raise ValueError("carriers")
        return found

    @staticmethod
    def _plain(ending: str) -> str:
        return ending.lower().replace("’", "'")


def load_language(name: str) -> Language:
    """Load the description of a language.

    Args:
        name: the code of a language that comes with the package, or a JSON file.

    Raises:
        NotFound: there is neither.
        DataLoss: the file describes no language.
    """
    shipped = resources.files("sottovoce.models") / "languages" / f"{name}.json"
    source = shipped if name.isalpha() and shipped.is_file() else Path(name)
    try:
        return Language.from_dict(json.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise NotFound(
            f"no description of a language at {name}",
            fix='name a JSON file, or "en"; docs/languages.md says what stands in it',
            subject="language",
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise DataLoss(
            f"{name} does not describe a language",
            fix="give code, clitics, accents and carriers as docs/languages.md says",
            subject="language",
        ) from error


TAG_ID: Final = {tag: position for position, tag in enumerate(UPOS)}
ANY: Final = (1 << len(UPOS)) - 1

_SEEN_OFTEN: Final = 3
_WORTH_COUNTING: Final = 0.03
# Penn tags of MASC that differ from the tags of the web treebank.
_PENN: Final = {
    **dict.fromkeys(("(", ")", "-", "...", '"', "'", "--", ";"), ("PUNCT",)),
    "TO": ("PART", "ADP"),
    "#": ("SYM",),
    "SYM": ("SYM", "PUNCT"),
    "FW": ("X", "NOUN", "PROPN"),
    "LS": ("NUM", "X", "PUNCT"),
    "PP": ("PRON",),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words in order with their possible tags, and their document."""

    words: tuple[str, ...]
    allowed: tuple[int, ...]
    """For each word a set of tags as bits. Bit i stands for `UPOS[i]`."""
    document: str


@dataclass(frozen=True, slots=True)
class _Token:
    form: str
    upos: str
    xpos: str


def read_conllu(path: Path) -> list[Sentence]:
    """Read the sentences of a CoNLL-U file, gzip or not, one tag a word.

    A contraction that differs from its joined words ("im" for "in dem") counts as one word, with
    the tag of the first.

    Raises:
        InvalidInput: there is no such file.
    """
    return [
        Sentence(
            tuple(token.form for token in tokens),
            tuple(1 << TAG_ID[token.upos] for token in tokens),
            document,
        )
        for document, tokens in _conllu(path)
    ]


def read_masc(path: Path, reference: Path) -> list[Sentence]:
    """Read MASC (gzip JSON lines), with the possible tags by `reference` (CoNLL-U)."""
    of_word, of_tag = _count_meanings(reference)
    found = []
    for line in _lines(path):
        entry = json.loads(line)
        allowed = [
            # MASC's tags of signs without letters are often wrong ("[" a noun), so any may do.
            (of_word.get((xpos, form.lower())) or of_tag.get(xpos, ANY))
            if any(map(str.isalnum, form)) or xpos in _PENN
            else ANY
            for form, xpos in zip(entry["tokens"], entry["xpos"], strict=True)
        ]
        found.append(Sentence(tuple(entry["tokens"]), tuple(allowed), entry["doc"]))
    return found


def _count_meanings(reference: Path) -> tuple[Mapping[tuple[str, str], int], Mapping[str, int]]:
    by_word: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    by_tag: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for _, tokens in _conllu(reference):
        for token in tokens:
            if token.xpos not in _PENN:
                by_word[token.xpos, token.form.lower()][token.upos] += 1
                by_tag[token.xpos][token.upos] += 1
    of_word = {
        key: _worth_keeping(counts)
        for key, counts in by_word.items()
        if counts.total() >= _SEEN_OFTEN
    }
    of_tag = {key: _worth_keeping(counts) for key, counts in by_tag.items()}
    return of_word, of_tag | {penn: _bits(tags) for penn, tags in _PENN.items()}


def _worth_keeping(counts: Counter[str]) -> int:
    least = _WORTH_COUNTING * counts.total()
    return _bits(tag for tag, count in counts.items() if count >= least)


def _bits(tags: Iterable[str]) -> int:
    return sum(1 << TAG_ID[tag] for tag in tags)


def _conllu(path: Path) -> Iterator[tuple[str, Sequence[_Token]]]:
    document, tokens = "", list[_Token]()
    contraction, begin, end = "", 0, ""
    for line in _lines(path):
        if line.startswith("# newdoc"):
            document = line.partition("=")[2].strip()
        elif not line and tokens:
            yield document, tokens
            tokens = []
        elif line and line[0] != "#":
            fields = line.split("\t")
            number, _, last = fields[0].partition("-")
            if last:  # "1-2" holds a contraction whose words follow
                contraction, begin, end = fields[1], len(tokens), last
            elif number.isdigit():  # "1.1" is a word that was left out
                tokens.append(_Token(fields[1], fields[3], fields[4]))
            if number == end:
                if "".join(token.form for token in tokens[begin:]) != contraction:
                    tokens[begin:] = [replace(tokens[begin], form=contraction)]
                end = ""
    if tokens:
        yield document, tokens


def _lines(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise InvalidInput(
            f"no treebank at {path}",
            fix="name the data folder with --data; the model card says what it holds",
            subject="data",
        )
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


_TEXTBOOKS: Final = (
    *("introduction-anthropology", "introduction-business", "principles-economics-bundle"),
)


@dataclass(frozen=True)
class Sources:
    """Functions that read the sources, by name."""

    treebanks: Mapping[str, Callable[[], list[Sentence]]]
    """Sentences with tags that people gave."""
    texts: Mapping[str, Callable[[], list[str]]]
    """Paragraphs without tags."""


def find(data: Path) -> Sources:
    """Return the sources in the folder ``data``.

    They are the sources of the shipped table, if it holds those. Otherwise they are every treebank
    (``*.conllu``) and text (``*.txt``, a paragraph a line), gzip or not.

    Raises:
        InvalidInput: there are none, or a source of the shipped table is missing.
    """
    if (data / "ud_ewt").is_dir():
        return _of_the_shipped_table(data)
    found = Sources(
        {name: partial(read_conllu, path) for name, path in _files(data, ".conllu")},
        {name: partial(_paragraphs, path) for name, path in _files(data, ".txt")},
    )
    if not found.treebanks and not found.texts:
        raise _missing(data)
    return found


def _files(data: Path, ending: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((*data.rglob(f"*{ending}"), *data.rglob(f"*{ending}.gz"))):
        yield path.relative_to(data).as_posix().removesuffix(".gz").removesuffix(ending), path


def _of_the_shipped_table(data: Path) -> Sources:
    text, web = data / "text", data / "ud_ewt" / "train.conllu.gz"
    plain = {
        "openstax": [text / f"openstax-{book}.txt.gz" for book in _TEXTBOOKS],
        "us-presidential": [text / "us-presidential.txt.gz"],
        "novels-sample": [text / "novels-sample.txt.gz"],
    }
    wiki = [text / f"wikitext2-{part}.txt.gz" for part in ("test", "valid")]
    return Sources(
        {
            "ud_ewt": partial(read_conllu, web),
            "pos_masc": partial(read_masc, data / "pos_masc" / "all.jsonl.gz", web),
        },
        {
            **{name: partial(_paragraphs, *paths) for name, paths in plain.items()},
            "wikitext2": lambda: [_untokenised(line) for line in _paragraphs(*wiki)],
            "movie_reviews": partial(_reviews, data / "movie_reviews" / "train.tsv.gz"),
            "wnut17": partial(_messages, data / "wnut17" / "train.jsonl.gz"),
        },
    )


def _paragraphs(*paths: Path) -> list[str]:
    found: list[str] = []
    for path in paths:
        with _open(path) as file:
            found += filter(None, map(str.strip, file))
    return found


def _reviews(path: Path) -> list[str]:
    with _open(path) as file:
        return [row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _messages(path: Path) -> list[str]:
    with _open(path) as file:
        return [" ".join(json.loads(line)["tokens"]) for line in file]


def _untokenised(line: str) -> str:
    """Undo WikiText's marks of inner punctuation and of rare words ("1 @,@ 000 <unk>")."""
    for mark in ",.-":
        line = line.replace(f" @{mark}@ ", mark)
    return line.replace("<unk>", " ")


def _open(path: Path) -> io.TextIOBase:
    if not path.is_file():
        raise _missing(path)
    if path.suffix == ".gz":
        return cast(io.TextIOBase, gzip.open(path, "rt", encoding="utf-8", newline="\n"))
    return path.open(encoding="utf-8", newline="\n")


def _missing(path: Path) -> InvalidInput:
    return InvalidInput(
        f"no text at {path}",
        fix="name a folder with treebanks (*.conllu) or texts (*.txt) with --data",
        subject="data",
    )


_CUT_AS_ON_DEVICE = 0.5
_NO_CAPITALS = 0.15
_ALL_CAPITALS = 0.03
_NO_FULL_STOP = 0.15
_OTHER_NUMBERS = 0.3
_LONGEST_PASSAGE = 8
_PUNCT = 1 << TAG_ID["PUNCT"]
_CLITICS = load_language("en").clitics
"""Both treebanks are English."""


def passages(sentences: Sequence[Sentence], random: Generator) -> Iterator[Sentence]:
    """Yield runs of one to eight consecutive sentences of a document, each changed at random."""
    start = 0
    while start < len(sentences):
        document = sentences[start].document
        end = start + int(random.integers(1, _LONGEST_PASSAGE + 1))
        chosen = [s for s in sentences[start:end] if s.document == document]
        changed = [_change(sentence, random) for sentence in chosen]
        yield Sentence(
            tuple(word for sentence in changed for word in sentence.words),
            tuple(allowed for sentence in changed for allowed in sentence.allowed),
            document,
        )
        start += len(chosen)


def _change(sentence: Sentence, random: Generator) -> Sentence:
    pairs = list(zip(sentence.words, sentence.allowed, strict=True))
    if random.random() < _CUT_AS_ON_DEVICE:
        pairs = [piece for word, allowed in pairs for piece in cut(word, allowed)]
    if random.random() < _NO_FULL_STOP and len(pairs) > 1 and pairs[-1][1] == _PUNCT:
        pairs.pop()
    if random.random() < _OTHER_NUMBERS:
        pairs = [(fill(layout(w), random) if words.has_number(w) else w, a) for w, a in pairs]
    case = random.random()
    if case < _NO_CAPITALS:
        pairs = [(word.lower(), allowed) for word, allowed in pairs]
    elif case < _NO_CAPITALS + _ALL_CAPITALS:
        pairs = [(word.upper(), allowed) for word, allowed in pairs]
    return Sentence(tuple(w for w, _ in pairs), tuple(a for _, a in pairs), sentence.document)


def cut(word: str, allowed: int, clitics: Sequence[str] = _CLITICS) -> list[tuple[str, int]]:
    """Cut a treebank's word as the device would ("Mr." -> "Mr", "."), with the possible tags."""
    pieces = [] if word.isalpha() else words.split(word, clitics)
    if len(pieces) < 2 or allowed == _PUNCT:
        return [(word, allowed)]
    return [(p.text, _PUNCT if p.kind is words.Kind.PUNCTUATION else allowed) for p in pieces]
