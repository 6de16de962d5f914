"""How much of the text that people marked as private leaves the device unchanged, by kind?

Personal data, named entities, nationalities and creeds go through `sotto privatize`, under every
policy with noise, at every level. Presidio is measured beside it. The cost is the share of words,
neither names nor numbers, that a random word replaces.

    python -m bench.leaks --quick
    python -m bench.leaks --presidio ../presidio/bin/python --pipeline NAME
    python -m bench.leaks --only names/balanced --corpora pii --show 20
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from bench import console
from bench.console import Table
from bench.data import require
from bench.leaks import report
from bench.leaks.corpora import CORPORA, FILES, OTHER_WORDS, TWIN, Document, read
from bench.leaks.counting import Rate, Tally, tally
from bench.leaks.presidio import Presidio
from bench.leaks.released import Fate, ReleaseError, release
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import LEVELS, POLICIES

__all__ = ["main"]

Figures = dict[str, Any]
Releases = Callable[[Sequence[str], Callable[[], object]], list[tuple[Fate, ...]]]

_QUICK: Final = 8
"""With ``--quick``, every n-th document is read."""
PRESIDIO: Final = "Presidio"


def main() -> None:
    """Print the tables, and keep the figures."""
    parser = console.parser(
        "leaks", __doc__, quick=f"every {_QUICK}th document", data="the marked texts"
    )
    parser.add_argument(
        "--only",
        type=console.names(),
        metavar="POLICY[/LEVEL],...",
        help="policies to measure, at every level or at one (default: all)",
    )
    usual = [name for name in CORPORA if name != TWIN]
    console.ask_names(parser, "--corpora", CORPORA, usual)
    parser.add_argument("--presidio", type=Path, help="python that has presidio-analyzer")
    parser.add_argument(
        "--pipeline", default="", help="Presidio's spaCy pipeline (default: patterns alone)"
    )
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="print the N commonest leaks of each group"
    )
    arguments = parser.parse_args()
    try:
        _measure(parser, arguments)
    except ReleaseError as error:
        parser.error(str(error))


def _measure(parser: ArgumentParser, arguments: Namespace) -> None:
    needed = dict.fromkeys(path for name in arguments.corpora for path in FILES[name])
    require(parser, arguments.data, *needed)
    sides = _sides(parser, arguments)
    every = _QUICK if arguments.quick else 1
    corpora = {name: read(name, arguments.data, every) for name in arguments.corpora}
    figures, leaks = [], []
    with console.progress() as bar:
        size = sum(map(len, corpora.values()))
        for side, release in sides:
            told = bar.add_task(" ".join(filter(None, side.values())), total=size)
            found, shown = _side(corpora, release, partial(bar.advance, told))
            promises = side["release"] != PRESIDIO
            figures.append({**side, "promises": promises, **found})
            leaks += _leaks(side, shown, arguments.show)
    result = {
        "bundle": Bundle.open(arguments.bundle).id,
        "quick": arguments.quick,
        "documents": {name: len(documents) for name, documents in corpora.items()},
        "sides": figures,
        "promises": report.kept_promises(figures),
    }
    console.publish(arguments, result, *report.tables(result), *leaks)


def _sides(parser: ArgumentParser, arguments: Namespace) -> list[tuple[dict[str, str], Releases]]:
    """Return the compared sides, by their names in the tables."""
    names = [name for name, policy in POLICIES.items() if not policy.context]
    chosen = [
        (policy, level)
        for policy, level in product(names, LEVELS)
        if not arguments.only or {policy, f"{policy}/{level}"} & {*arguments.only}
    ]
    if not chosen:
        parser.error(f"--only: policies are {', '.join(names)}, and levels {', '.join(LEVELS)}")

    def releases(policy: str, level: str) -> Releases:
        return lambda texts, each: release(arguments.bundle, texts, level, policy, each)

    sides = [
        ({"release": "present", "policy": policy, "level": level}, releases(policy, level))
        for policy, level in chosen
    ]
    if arguments.presidio:
        clitics = Bundle.open(arguments.bundle).manifest.clitics
        presidio = Presidio(arguments.presidio, arguments.pipeline, clitics)
        name = {"release": PRESIDIO, "policy": arguments.pipeline or "patterns", "level": ""}
        sides.append((name, presidio.release))
    return sides


def _side(
    corpora: dict[str, list[Document]], release: Releases, each: Callable[[], object]
) -> tuple[Figures, dict[str, Tally]]:
    """Return the figures by corpus and group, and by group over all corpora."""
    texts = [document.text for documents in corpora.values() for document in documents]
    fates = release(texts, each)
    pooled: dict[str, Tally] = {}
    by_corpus, verbatim, start = {}, Rate(), 0
    for name, documents in corpora.items():
        found, every = tally(documents, fates[start : start + len(documents)])
        start += len(documents)
        by_corpus[name] = {group: counted.figures() for group, counted in found.items()}
        for group, counted in found.items():
            pooled.setdefault(group, Tally()).extend(counted)
        if name == OTHER_WORDS:
            verbatim = every
    groups = {group: counted.figures() for group, counted in pooled.items()}
    figures = {"groups": groups, "corpora": by_corpus, "verbatim": verbatim.figures()}
    return figures, pooled


def _leaks(side: dict[str, str], found: dict[str, Tally], n: int) -> list[Table]:
    """Return the commonest leaked spans for developers to read; they are printed and never kept."""
    rows = [
        (group, span, str(times))
        for group, each in found.items()
        if group != OTHER_WORDS
        for span, times in each.leaked.most_common(n)
    ]
    title = f"came through: {' '.join(filter(None, side.values()))}"
    return [console.table(title, ("of", "span"), ("times",), rows)] if n else []


if __name__ == "__main__":
    main()
