"""What of the text that people marked as private leaves the device as it was, by kind?

Annotated personal data, named entities, nationalities and creeds, through `sotto privatize`, under
every policy at every level. And what it costs: how many words that are neither names nor numbers
give way to a random one.

    python -m bench.leaks --quick
    python -m bench.leaks --only names/balanced --corpora pii --show 20
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from bench import console
from bench.console import Table
from bench.data import require
from bench.leaks import report
from bench.leaks.corpora import CORPORA, FILES, OTHER_WORDS, Document, read
from bench.leaks.counting import Rate, Tally, tally
from bench.leaks.released import Fate, RefusedError, released
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import POLICIES
from sottovoce.core.privacy.setting import LEVELS

__all__ = ["main"]

Figures = dict[str, Any]

_QUICK: Final = 8
"""Of so many documents one is read."""


def main() -> None:
    """Prints the tables, and keeps the figures."""
    parser = console.parser(
        "leaks", __doc__, quick=f"every {_QUICK}th document", data="the marked texts"
    )
    parser.add_argument(
        "--only",
        type=console.names(),
        metavar="POLICY[/LEVEL],...",
        help="these policies, at every level or at one (default: all)",
    )
    console.ask_names(parser, "--corpora", CORPORA)
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="print the N commonest leaks of each group"
    )
    arguments = parser.parse_args()
    require(
        parser, arguments.data, *dict.fromkeys(f for name in arguments.corpora for f in FILES[name])
    )
    only: Sequence[str] | None = arguments.only
    sides = [
        (policy, level)
        for policy in POLICIES
        for level in LEVELS
        if only is None or policy in only or f"{policy}/{level}" in only
    ]
    if not sides:
        parser.error(f"--only: policies are {', '.join(POLICIES)}, and levels {', '.join(LEVELS)}")
    try:
        _measure(arguments, sides)
    except RefusedError as error:
        parser.error(str(error))


def _measure(arguments: Namespace, sides: Sequence[tuple[str, str]]) -> None:
    every = _QUICK if arguments.quick else 1
    corpora = {name: read(name, arguments.data, every) for name in arguments.corpora}
    figures, leaks = [], []
    with console.progress() as bar:
        size = sum(map(len, corpora.values()))
        for policy, level in sides:
            told = bar.add_task(f"{policy} {level}", total=size)
            texts = [document.text for documents in corpora.values() for document in documents]
            each = partial(bar.advance, told)
            fates = released(arguments.bundle, texts, level, policy, each)
            found, shown = _side(corpora, fates)
            figures.append({"policy": policy, "level": level, **found})
            leaks += _leaks(f"{policy} {level}", shown, arguments.show)
    result = {
        "bundle": Bundle.open(arguments.bundle).id,
        "quick": arguments.quick,
        "documents": {name: len(documents) for name, documents in corpora.items()},
        "sides": figures,
        "promises": report.kept_promises(figures),
    }
    console.publish(arguments, result, *report.tables(result), *leaks)


def _side(
    corpora: dict[str, list[Document]], fates: Sequence[tuple[Fate, ...]]
) -> tuple[Figures, dict[str, Tally]]:
    """Figures by corpus and group, and by group over all of them."""
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


def _leaks(side: str, found: dict[str, Tally], n: int) -> list[Table]:
    """The commonest spans that came through, for who mends it; printed, never kept."""
    rows = [
        (group, span, str(times))
        for group, each in found.items()
        if group != OTHER_WORDS
        for span, times in each.leaked.most_common(n)
    ]
    return [console.table(f"came through: {side}", ("of", "span"), ("times",), rows)] if n else []


if __name__ == "__main__":
    main()
