"""What do levels cost a classifier, beside other authors' mechanisms at equal attack success?

The mechanisms are T2T and PCT2T at full width, SanText, CusText, PII scrubbing, token embedding as
Split-and-Denoise publishes it, DPNR and CAPE. A classifier learns from releases and is judged on
releases. An attacker reads releases of the same kind of text. Each setting of another mechanism is
compared with our curve of accuracy over the share of content words that the attacker recovers.

    python -m bench.baselines
    python -m bench.baselines --only SanText,CusText --levels strong,attack:0.3 --seeds 1
    python -m bench.baselines --only ours
    python -m bench.baselines --fresh

All texts of a run leave under one key, as from one device: equal words after equal words are equal
releases. A classifier learns them. With ``--fresh`` every word is drawn anew, as the other
mechanisms are published. The attacker is judged on fresh noise and links no equal releases.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bench import console, processes
from bench.attacks.frontier import Point, against
from bench.baselines.run import BASELINES, CLEAR, OURS, TASKS, Job, Place, cells_of, opened, points
from bench.console import Figures, Table, share, span
from bench.data import require
from bench.utility.tasks import files
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.policies import LEVELS, Setting

_OTHER = ("wnut17/train.jsonl.gz", "blogs/train.tsv.gz")


_SWAPPED: Final = {"ours": "theirs", "theirs": "ours"}


def compared(found: Mapping[Job, Point]) -> Iterator[Figures]:
    """Compare each setting of the other mechanisms with our curve on the same task.

    Our curve goes through our levels and clear text, see `against`. Where the attacker succeeds
    less often than at our strongest level, that level's accuracy stands for ours, and ``verdict``
    is never "ours".
    """
    for job, point in found.items():
        curve = [each for at, each in found.items() if (at.task, at.name) == (job.task, OURS)]
        if job.name in (OURS, CLEAR) or not curve:
            continue
        for row in against(point, curve, found[Job(job.task, CLEAR, CLEAR)].utility):
            yield {
                **job._asdict(),
                "at": row["at"],
                "theirs": row["value"],
                "ours": row["theirs"],
                "difference": -row["difference"],
                "ci": [-end for end in reversed(row["ci"])],
                "verdict": _SWAPPED.get(row["verdict"], row["verdict"]),
            }


def main() -> None:
    """Print the tables."""
    parser = console.parser("baselines", __doc__, models=True, data="the data sets")
    about = "; ours and clear text are always among them"
    console.ask_names(parser, "--only", (OURS, *BASELINES), about=about)
    console.ask_names(parser, "--tasks", TASKS, ("sst2", "trec"))
    parser.add_argument("--levels", type=console.names(), default=LEVELS, help="of ours")
    parser.add_argument("--fresh", action="store_true", help="draw noise anew, under no key")
    parser.add_argument("--seeds", type=int, default=3, help="of training texts and of the noise")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="processes, 1.5 GiB each"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, *files(arguments.tasks), *_OTHER)
    bundle = Bundle.open(arguments.bundle)
    try:
        for level in arguments.levels:
            bundle.manifest.level(Setting().mechanism, level)
    except SottovoceError as error:
        parser.error(f"--levels: {error}")
    folder = arguments.out / "cache" / "baselines"
    place = Place(arguments.bundle, arguments.models, arguments.data, folder)
    settings = {CLEAR: (CLEAR,), OURS: arguments.levels}
    settings |= {name: each for name, each in BASELINES.items() if name in arguments.only}
    jobs = [
        Job(task, name, setting)
        for task in arguments.tasks
        for name, some in settings.items()
        for setting in some
    ]
    of_jobs = [cells_of(job, arguments.seeds, fresh=arguments.fresh) for job in jobs]
    cells = [cell for some in zip(*of_jobs, strict=True) for cell in some]
    cells = [cell for cell in cells if not place.file(cell).exists()]
    done = processes.share_out(opened, place, cells, arguments.processes)
    for _ in console.track(done, "classifying and attacking", total=len(cells)):
        pass
    found = points(place, jobs, arguments.seeds, fresh=arguments.fresh)
    rows = [
        {**job._asdict(), **_recovered(point), **point.figures(), "accuracy_sd": _deviation(point)}
        for job, point in found.items()
    ]
    comparisons = [*compared(found)]
    figures: Figures = {"bundle": bundle.id, "seeds": arguments.seeds, "rows": rows}
    figures["fresh"] = arguments.fresh
    console.publish(arguments, figures | {"comparisons": comparisons}, *_tables(rows, comparisons))


def _recovered(point: Point) -> Figures:
    tally = point.tallies["all"]
    return {"recovered": tally.share, "recovered_ci": tally.interval()}


def _deviation(point: Point) -> float:
    """Return the standard deviation of the accuracy over the seeds."""
    return float(point.utility["accuracy"].mean(axis=1).std())


def _tables(rows: Iterable[Figures], comparisons: Iterable[Figures]) -> Iterator[Table]:
    named = ("task", "name", "setting")
    yield console.table(
        "content words recovered, and accuracy",
        named,
        ("recovered", "95 %", "accuracy", "95 %", "sd of seeds"),
        (
            (
                *(row[name] for name in named),
                *(share(row["recovered"]), span(row["recovered_ci"])),
                *(share(row["accuracy"]), span(row["accuracy_ci"]), share(row["accuracy_sd"])),
            )
            for row in rows
        ),
    )
    yield console.table(
        "accuracy at equal attack success",
        named,
        ("recovered", "theirs", "ours", "difference", "95 %", "verdict"),
        (
            (
                *(row[name] for name in named),
                *(share(row[name]) for name in ("at", "theirs", "ours")),
                *(share(row["difference"], sign="+"), span(row["ci"], sign="+"), row["verdict"]),
            )
            for row in comparisons
        ),
    )


if __name__ == "__main__":
    main()
