"""Is a cloud's answer to privatised text restored correctly?

The bench checks the promises of restoration on texts of WebNLG (Gardent et al. 2017; RAPT v2
section V). Its sentences name persons, places and numbers, and its facts list them. A model that
writes badly would hide faults of restoration. So the cloud repeats the release, and adds a sentence
about other facts.

    python -m bench.generation --quick
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench import console
from bench.console import Figures, Table
from bench.data import require
from bench.resampling import drawn, interval
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import COMMON, Restoration, ordinary_words
from sottovoce.core.privacy.surrogate_table import TOKEN, observe
from sottovoce.models import frequencies

__all__ = ["SETTINGS", "Device", "Entry", "Tally", "gates", "read", "tally"]

_FILE: Final = "webnlg/dev.jsonl.gz"
_QUICK: Final = 4
"""``--quick`` reads every n-th entry."""

_ENTITIES: Final = 0.99
"""Minimum share of entities that are restored exactly."""
_FALSE: Final = 0.003
"""Maximum share of words without a surrogate that restoration may change."""
_HELD: Final = 2
"""Maximum number of words that a stream may hold back."""

_CUTS: Final = (1, 2, 3, 5, 8, 13, 40)
"""Characters in a piece, and pieces of random lengths."""


_LEVELS: Final = ("strong", "balanced", "light")
SETTINGS: Final = {
    "names": Setting("balanced", "pct2t.v2", "names"),
    **{f"content {level}": Setting(level, "pct2t.v2", "content") for level in _LEVELS},
    **{f"PCT2T {level}": Setting(level, "pct2t.v1", "papers") for level in _LEVELS},
    **{f"T2T {level}": Setting(level, "t2t.v1", "all") for level in _LEVELS},
}
"""The compared settings: our policies, and the published mechanisms with their parts of speech, at
the levels of equal attack success.
"""


@dataclass(frozen=True)
class Device:
    """Releases documents and turns answers back.

    Attributes:
        bundle: its bundle.
        privatizer: over that.
        common: the language's commonest words.
        key: of this measurement; equal figures come of equal keys.
    """

    bundle: Bundle
    privatizer: Privatizer
    common: frozenset[str]
    key: Key

    @classmethod
    def of(cls, bundle: Path, models: Path, seed: int = 0) -> Device:
        """Open the bundle's folder and the shipped counts."""
        opened = Bundle.open(bundle)
        table = frequencies.load(models / "frequencies")
        counts: Counter[str] = Counter()
        for word, met in zip(table.words, table.counts.tolist(), strict=True):
            counts[word] += met
        common = frozenset(word for word, _ in counts.most_common(COMMON))
        return cls(opened, Privatizer.of(opened), common, Key(seed.to_bytes(32, "big")))

    def release(self, document: str, setting: Setting) -> Release:
        """Release the document."""
        return self.privatizer.release(document, setting, key=self.key)

    def restoration(self, release: Release) -> Restoration:
        """Return the restoration for answers to this release."""
        return Restoration(observe([release]), self.common, ordinary_words(self.bundle))


_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTE = re.compile(r" \([^)]*\)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """Facts and the human texts about them.

    Attributes:
        facts: "Aarhus Airport | runway length | 2702.0; ...", the input to write from.
        texts: the human texts.
        entities: subjects and objects that occur word for word in the first text.
    """

    facts: str
    texts: tuple[str, ...]
    entities: tuple[str, ...]


def read(file: Path, every: int = 1) -> list[Entry]:
    """Read each ``every``-th entry of a part; a few without a text are left out."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        found = map(json.loads, [*lines][::every])
        return [_entry(each) for each in found if each["texts"]]


def _entry(found: dict[str, Any]) -> Entry:
    triples = [tuple(map(_spoken, triple)) for triple in found["triples"]]
    texts = tuple(" ".join(text.split()) for text in found["texts"])
    named = dict.fromkeys(_NOTE.sub("", part) for one, _, other in triples for part in (one, other))
    return Entry(
        "; ".join(" | ".join(triple) for triple in triples),
        texts,
        tuple(name for name in named if name and name in texts[0]),
    )


def _spoken(part: str) -> str:
    return _HUMP.sub(" ", part.strip('"')).replace("_", " ").strip()


@dataclass
class Tally:
    """Counts, an item for each entry.

    Attributes:
        entities, kept, left: entities of the text, entities restored in the answer, and entities
            released as typed.
        words, false: words without a surrogate, and those among them that restoration changed.
        alike: whether restoration is the same for every way to cut the answer into pieces.
        held: largest number of words held back; a word with punctuation in it is one word.
    """

    entities: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    alike: bool = True
    held: int = 0


def tally(
    device: Device,
    entries: Sequence[Entry],
    setting: Setting,
    each: Callable[[], object] = lambda: None,
) -> Tally:
    """Count over entries; the first text of each following entry is the cloud's added sentence."""
    found = Tally()
    random = np.random.default_rng(0)
    for at, entry in enumerate(entries):
        text, own = entry.texts[0], entries[(at + 1) % len(entries)].texts[0]
        release = device.release(text, setting)
        way_back = device.restoration(release)
        answer = f"{release.text}\n{own}"
        back = way_back.restore(answer).text
        echoed, _, added = back.rpartition("\n")
        found.entities.append(len(entry.entities))
        found.kept.append(sum(name in echoed for name in entry.entities))
        found.left.append(sum(name in release.text for name in entry.entities))
        words, false = _false(release, echoed, own, added)
        found.words.append(words)
        found.false.append(false)
        alike, held = _streamed(way_back, answer, back, random)
        found.alike &= alike
        found.held = max(found.held, held)
        each()
    return found


def gates(found: Tally) -> dict[str, Any]:
    """Return the figures with their intervals, and whether they keep the promises."""
    entities, false = _share(found.kept, found.entities), _share(found.false, found.words)
    return {
        "entities": entities,
        "entities_left": _share(found.left, found.entities),
        "false": false,
        "words": sum(found.words),
        "streams_alike": found.alike,
        "held": found.held,
        "kept": entities["share"] >= _ENTITIES
        and false["share"] <= _FALSE
        and found.alike
        and found.held <= _HELD,
    }


def _share(part: Sequence[int], whole: Sequence[int]) -> dict[str, Any]:
    """Return the share over all entries, and its interval over entries."""
    counts = np.array([part, whole], dtype=float)
    resampled: NDArray[np.float64] = drawn(len(part)) @ counts.T
    return {
        "share": float(counts[0].sum() / counts[1].sum()),
        "ci": interval(resampled[:, 0] / resampled[:, 1].clip(1)),
    }


def _false(release: Release, echoed: str, own: str, added: str) -> tuple[int, int]:
    """Return the number of words without a surrogate, and the number that restoration changed."""
    typed: list[str] = []
    stayed: list[bool] = []
    for word in release.each_word():
        tokens = TOKEN.findall(release.document[word.start : word.end])
        typed += tokens
        stayed += [not word.replaced] * len(tokens)
    typed += TOKEN.findall(own)
    stayed += [True] * (len(typed) - len(stayed))
    came = [*TOKEN.findall(echoed), *TOKEN.findall(added)]
    false = 0
    for kind, start, end, _, _ in SequenceMatcher(None, typed, came, autojunk=False).get_opcodes():
        # Of a block that changed, words that left as typed count where nothing else is in it.
        if kind != "equal" and all(stayed[start:end]):
            false += end - start
    return sum(stayed), false


def _streamed(
    way_back: Restoration, answer: str, whole: str, random: np.random.Generator
) -> tuple[bool, int]:
    """Return whether all piece sizes give the same text, and the most words held back."""
    alike, held = True, 0
    for size in (*_CUTS, 0, 0, 0):
        stream, out, at = way_back.stream(), [], 0
        while at < len(answer):
            step = size or int(random.integers(1, 12))
            out.append(stream.feed(answer[at : at + step]))
            at += step
            held = max(held, sum(any(map(str.isalnum, word)) for word in stream.held.split()))
        alike &= "".join([*out, stream.finish()]) == whole
    return alike, held


def main() -> None:
    """Print the table, and keep the figures."""
    parser = console.parser(
        "generation", __doc__, quick=f"every {_QUICK}th entry", models=True, data="webnlg"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, _FILE)
    device = Device.of(arguments.bundle, arguments.models)
    entries = read(arguments.data / _FILE, _QUICK if arguments.quick else 1)
    found: Figures = {}
    with console.progress() as bar:
        for name, setting in SETTINGS.items():
            task = bar.add_task(name, total=len(entries))
            found[name] = gates(tally(device, entries, setting, partial(bar.advance, task)))
    figures = {"bundle": device.bundle.id, "entries": len(entries), "gates": found}
    console.publish(arguments, figures, _table(found, len(entries)))


def _table(found: dict[str, Any], entries: int) -> Table:
    return console.table(
        f"restoration on a cloud that repeats its prompt, {entries} texts, 95 % intervals",
        ("policy",),
        ("entities", "", "left as typed", "false", "", "of words", "streams alike", "held", "kept"),
        (
            (
                name,
                console.share(row["entities"]["share"]),
                console.span(row["entities"]["ci"], 3),
                console.share(row["entities_left"]["share"]),
                console.share(row["false"]["share"], 4),
                console.span(row["false"]["ci"], 4),
                row["words"],
                row["streams_alike"],
                row["held"],
                row["kept"],
            )
            for name, row in found.items()
        ),
    )


if __name__ == "__main__":
    main()
