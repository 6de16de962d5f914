"""The plan of the house, read off the imports: rooms, floors, and what may import what.

    python -m tests.support.architecture            # prints it; fails on a fault
    python -m tests.support.architecture --write    # and writes the docs' table and picture

A *part* is an installed package (or the benches), a *room* a folder or a single module right inside
a part. `PLAN` says on which floor a room stands: it may import rooms on floors below its own, and
no others. `FORBIDDEN` says what must not be reached at all, by however many steps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "architecture.svg"

Plan = Mapping[str, Sequence[Sequence[str]]]
"""Of every part its floors from the ground up, of every floor its rooms."""

PLAN: Plan = {
    "sottovoce.core": [
        ["errors"],
        ["platform"],
        ["rpc", "text"],
        ["bundle", "http"],
        ["privacy"],
    ],
    "sottovoce.edge": [
        ["config_check"],
        ["config", "state"],
        ["client", "measure"],
        ["bundle"],
        ["tasks"],
        ["http"],
        ["services"],
        ["server"],
        ["cli", "__main__"],
    ],
    "sottovoce.cloud": [
        ["job", "config"],
        ["metrics", "models", "store"],
        ["serving", "tenants"],
        ["jobs"],
        ["api", "training", "views"],
        ["page"],
        ["cli", "__main__"],
    ],
    "sottovoce.models": [
        ["corpus", "graphs", "kept_levels", "public_words"],
        ["frequencies", "public_phrases", "space", "tagger", "torch_export"],
        ["calibration_attack", "encoder", "indexes", "names_data", "vocabulary"],
        ["calibration", "denoiser_data", "names_training"],
        ["context_finder", "denoiser_training"],
        ["bundle", "denoiser"],
        ["cli", "__main__"],
    ],
    "bench": [
        ["cache", "classifier", "data", "live", "marked", "presidio", "presidio_worker"],
        ["console", "processes", "resampling"],
        ["attacks"],
        ["generation", "utility"],
        ["baselines"],
        ["embedding", "fetch", "private_prompts", "prompts", "speed"],
    ],
}


@dataclass(frozen=True, slots=True)
class Forbidden:
    """``importer`` and all within it must not reach any of ``imported``, through others neither."""

    importer: str
    imported: tuple[str, ...]


_LEARNING = ("torch", "transformers", "peft")
_OTHERS = ("sottovoce.edge", "sottovoce.cloud", "sottovoce.models")
FORBIDDEN = (
    Forbidden("sottovoce.core", (*_LEARNING, *_OTHERS)),
    Forbidden("sottovoce.edge", (*_LEARNING, "sottovoce.cloud", "sottovoce.models")),
    Forbidden("sottovoce.cloud", ("sottovoce.edge", "sottovoce.models")),
    Forbidden("sottovoce.models", ("sottovoce.edge",)),
    Forbidden("sottovoce.cloud.jobs", _LEARNING),
    Forbidden("sottovoce.cloud.page", _LEARNING),
    Forbidden("sottovoce.cloud.store", _LEARNING),
    Forbidden("sottovoce.cloud.tenants", _LEARNING),
    Forbidden("sottovoce.cloud.api.training_service", _LEARNING),
    *(Forbidden(part, ("bench", "tests", "soak", "examples")) for part in PLAN if part != "bench"),
)


def graph(parts: Iterable[str] = tuple(PLAN)) -> grimp.ImportGraph:
    """Every import that can run, also within functions; read as text, nothing is imported."""
    return grimp.build_graph(
        *parts, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def rooms(found: grimp.ImportGraph, part: str) -> dict[str, set[str]]:
    """Of every room of ``part`` the rooms of the same part that it imports."""
    own = {m for m in found.modules if m.startswith(f"{part}.")}
    imported: dict[str, set[str]] = {_room(module, part): set() for module in own}
    for module in own:
        there = found.find_modules_directly_imported_by(module) & own
        imported[_room(module, part)] |= {_room(m, part) for m in there} - {_room(module, part)}
    return imported


def _room(module: str, part: str) -> str:
    return module.removeprefix(f"{part}.").partition(".")[0]


def faults(
    found: grimp.ImportGraph,
    plan: Plan = PLAN,
    forbidden: Iterable[Forbidden] = FORBIDDEN,
) -> list[str]:
    """Return one sentence for each circle, upward or forbidden import, and unplanned room."""
    wrong = []
    for part, floors in plan.items():
        floor = {room: level for level, names in enumerate(floors) for room in names}
        there = rooms(found, part)
        wrong += [f"{part}: {room} stands in no plan" for room in sorted(there.keys() - floor)]
        wrong += [f"{part}: {room} is not there" for room in sorted(floor.keys() - there)]
        wrong += [
            f"{part}: {room} imports {other}, which is not below it"
            for room, others in sorted(there.items())
            for other in sorted(others)
            if floor.get(other, -1) >= floor.get(room, len(floors))
        ]
        modules = {m for m in found.modules if m == part or m.startswith(f"{part}.")}
        imports = {m: found.find_modules_directly_imported_by(m) & modules for m in modules}
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as circle:
            wrong.append(f"{part}: modules in a circle: {' <- '.join(circle.args[1])}")
    for rule in forbidden:
        for package in rule.imported:
            if {rule.importer, package} <= found.modules:
                chains = found.find_shortest_chains(rule.importer, package, as_packages=True)
                wrong += [
                    f"{rule.importer} must not reach {package}: {' -> '.join(chain)}"
                    for chain in sorted(chains)[:1]
                ]
    return wrong


def table(found: grimp.ImportGraph, plan: Plan = PLAN) -> str:
    """Rooms, floors and imports of every part, as Markdown."""
    rows = ["| part | rooms | floors | imports between rooms |", "|---|---|---|---|"]
    for part, floors in plan.items():
        there = rooms(found, part)
        imports = sum(len(others) for others in there.values())
        rows.append(f"| `{part}` | {len(there)} | {len(floors)} | {imports} |")
    return "\n".join(rows)


def reduced(imports: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows worth drawing: an import that a longer way implies is left out."""

    def below(room: str) -> set[str]:
        return imports[room].union(*(below(other) for other in imports[room]))

    return sorted(
        (room, other)
        for room, others in imports.items()
        for other in others
        if not any(other in below(third) for third in others - {other})
    )


def draw(found: grimp.ImportGraph, file: Path, plan: Plan = PLAN) -> None:
    """The picture: a column a package, a row a floor, arrows downward only."""
    columns = ("sottovoce.edge", "sottovoce.core", "sottovoce.cloud")
    with mpl.rc_context({"svg.hashsalt": "sottovoce", "svg.fonttype": "none"}):
        figure = Figure(figsize=(13, 6.2))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        left, middles = 0.0, []
        for part in columns:
            width = 1.35 * max(len(names) for names in plan[part])
            middles.append((left + width / 2, -0.75))
            _column(axes, part, left, width, plan[part], rooms(found, part))
            left += width + 0.7
        for side in (0, 2):  # both packages import core, and neither the other
            axes.annotate(
                "", middles[1], middles[side], arrowprops={**_ARROW, "shrinkA": 85, "shrinkB": 85}
            )
        axes.set_xlim(-0.2, left - 0.5)
        axes.set_ylim(-1.1, 1.2 * (max(len(plan[part]) for part in columns) - 1) + 0.6)
        figure.savefig(file, metadata={"Date": None, "Creator": None})


_ARROW = {"arrowstyle": "-|>", "color": "#8a94a6"}
_BOX = {"boxstyle": "round,pad=0.45", "facecolor": "#e8f0fe", "edgecolor": "#3b5b92"}


def _column(
    axes: Axes,
    part: str,
    left: float,
    width: float,
    floors: Sequence[Sequence[str]],
    imports: Mapping[str, set[str]],
) -> None:
    place = {
        # Every other floor stands aside, so that no arrow hides behind a room it passes.
        room: (left + width * (i + 1) / (len(names) + 1) + 0.3 * (level % 2), 1.2 * level)
        for level, names in enumerate(floors)
        for i, room in enumerate(names)
    }
    for room, other in reduced(imports):
        ends = {"shrinkA": 14, "shrinkB": 14, "connectionstyle": "arc3,rad=0.07"}
        axes.annotate("", place[other], place[room], arrowprops={**_ARROW, **ends})
    for room, (x, y) in place.items():
        axes.text(x, y, room, ha="center", va="center", fontsize=11, bbox=_BOX)
    axes.text(left + width / 2, -0.75, part, ha="center", va="center", fontsize=13, weight="bold")


def page(text: str, found: grimp.ImportGraph) -> str:
    """The docs' page with its table made anew, between its two marks."""
    before, _, rest = text.partition("<!-- rooms -->")
    _, _, after = rest.partition("<!-- /rooms -->")
    return f"{before}<!-- rooms -->\n{table(found)}\n<!-- /rooms -->{after}"


def main() -> None:
    """Print the plan and its faults; the exit status is 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the docs' table and picture")
    arguments = parser.parse_args()
    found = graph()
    if arguments.write:
        PAGE.write_text(page(PAGE.read_text("utf-8"), found), "utf-8")
        draw(found, PICTURE)
    print(table(found))
    for part, floors in PLAN.items():
        print(f"\n{part}")
        there = rooms(found, part)
        for level in reversed(range(len(floors))):
            for room in floors[level]:
                print(f"  {level}  {room:<12} {' '.join(sorted(there.get(room, ())))}".rstrip())
    wrong = faults(found)
    for sentence in wrong:
        print(f"fault: {sentence}", file=sys.stderr)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
