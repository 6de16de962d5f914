"""Does each job take effect exactly once, while trainers are killed and suspended?

The workers are the product's, in separate processes; only the training is replaced, by writing a
small file. The database is a temporary PostgreSQL server, or the one named by ``--store``. See
docs/scaling.md.

    python -m bench.scale --jobs 2000 --trainers 8 --kills 100

With ``--local``: how do killed parts of the cloud affect devices' calls and jobs behind a balancer?

    python -m bench.scale --local

With ``--simulate``: what do a million devices need, and how does each routing policy serve them?

    python -m bench.scale --simulate
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

from bench import console
from bench.console import Figures
from bench.live import postgres_server
from bench.scale import paper
from bench.scale.kills import Load, run
from bench.scale.trainers import Place

__all__ = ["main"]


def main() -> None:
    """Entry point."""
    parser = console.parser("scale", __doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--trainers", type=int, default=8)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument(
        "--sleeps", type=int, default=10, help="trainers to suspend beyond their lease"
    )
    parser.add_argument("--lease-seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", help='a database\'s URL; "" for SQLite')
    parser.add_argument(
        "--local", action="store_true", help="kill parts of a local cloud with real daemons"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="duration of each measurement of --local"
    )
    parser.add_argument(
        "--devices", type=int, help="default with --local 2, with --simulate 1,000,000"
    )
    parser.add_argument("--callers", type=int, default=4, help="callers for each device")
    parser.add_argument(
        "--simulate", action="store_true", help="simulate a large cloud: routing, sizes, costs"
    )
    paper.add_inputs(parser)
    arguments = parser.parse_args()
    if arguments.simulate:
        arguments.name += "_simulated"
        found = paper.measure(arguments)
        console.publish(arguments, found, *paper.tables(found))
        return
    if arguments.local:
        arguments.name += "_local"
        _local(arguments)
        return
    found = _measured(arguments)
    rows = [(name.replace("_", " "), value) for name, value in found.items()]
    console.publish(arguments, found, console.table("jobs and kills", ["what"], ["count"], rows))


def _local(arguments: Namespace) -> None:
    # Imported late: the forked workers of --jobs must not carry these modules.
    from bench.scale import local

    with tempfile.TemporaryDirectory() as folder:
        found = local.measure(
            Path(folder),
            arguments.bundle,
            devices=arguments.devices or 2,
            callers=arguments.callers,
            seconds=arguments.seconds,
        )
    console.publish(arguments, found, *local.tables(found))


def _measured(arguments: Namespace) -> Figures:
    load = Load(
        arguments.jobs, arguments.trainers, arguments.kills, arguments.sleeps, arguments.seed
    )
    with ExitStack() as stack:
        store = arguments.store
        if store is None:
            programs = postgres_server.found()
            if programs is None:
                raise SystemExit(postgres_server.HINT)
            store = stack.enter_context(postgres_server.running(programs)).url()
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bar = stack.enter_context(console.progress())
        task = bar.add_task("jobs", total=load.jobs)
        place = Place(state, store, arguments.lease_seconds)
        return run(place, load, lambda done: bar.update(task, completed=done))


if __name__ == "__main__":
    main()
