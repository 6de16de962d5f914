"""``sotto-cloud status``: all roles at a glance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.cloud.cli.options import opened, state_option, store_option, tls_ca_option
from sottovoce.cloud.cli.peers import FIGURES, answers_calls, figures
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.overview import Overview, overview
from sottovoce.core.errors import SottovoceError, Unavailable
from sottovoce.core.system.console import Command, json_option, print_json, print_table

_SHOWN: Final = 8
"""Letters of a trainer's random name that people are shown."""


@click.command("status", cls=Command)
@state_option
@store_option
@click.option(
    "--health",
    "health",
    multiple=True,
    metavar="HOST:PORT",
    help="A server, replica, front or balancer to ask whether it answers calls; may be given "
    "again.",
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="HOST:PORT",
    help="What a process was given as --metrics, to read its figures; may be given again.",
)
@tls_ca_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    state: Path,
    store: str,
    health: tuple[str, ...],
    metrics: tuple[str, ...],
    tls_ca: Path | None,
    as_json: bool,
) -> None:
    """Show jobs, queue and trainers as the database has them, and what processes say.

    The database knows trainers by the jobs that they hold; one that waits for a job is seen
    by its --metrics alone. Addresses may stand in the file that --config names, in a table
    [status]. Ends with 6 if the database or an address does not answer; what does is shown.
    """
    database = _asked(lambda: _jobs(state, store))
    called = [_at(each, lambda at: {"serving": answers_calls(at, tls_ca)}) for each in health]
    read = [_at(each, figures) for each in metrics]
    parts = (database, *called, *read)
    well = all("error" not in part and part.get("serving", True) for part in parts)
    found = {"database": database, "health": called, "metrics": read, "well": well}
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not well:
        ctx.exit(Unavailable.exit_code)


def _asked(question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return question()
    except SottovoceError as error:
        return {"error": error.problem, "fix": error.fix}


def _at(address: str, question: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return {"address": address, **_asked(lambda: question(address))}


def _jobs(state: Path, store: str) -> dict[str, Any]:
    with opened(state, store) as database:
        found: Overview = overview(database)
    return {
        "jobs": {each.lower(): found.counts[each] for each in State},
        "oldest_queued_seconds": round(found.oldest_queued_seconds, 1),
        "trainers": found.trainers,
        "expired_leases": found.expired,
        "running": [
            {
                "job": each.job,
                "trainer": each.trainer,
                "lease_seconds": round(each.lease_seconds, 1),
                "attempts": each.attempts,
                "step": each.progress.step,
                "steps": each.progress.steps,
                "examples_per_second": round(each.progress.examples_per_second, 1),
            }
            for each in found.running
        ],
    }


def _show(found: dict[str, Any]) -> None:
    database = found["database"]
    if "error" in database:
        click.echo(f"database   {database['error']}")
    else:
        jobs = ", ".join(f"{n} {name}" for name, n in database["jobs"].items() if n)
        click.echo(f"jobs       {jobs or 'none'}")
        if database["jobs"]["queued"]:
            click.echo(f"queue      the oldest waits for {database['oldest_queued_seconds']:.0f} s")
        ended = database["expired_leases"]
        click.echo(
            f"trainers   {database['trainers']} with a job"
            + (f"; {ended} whose lease has ended" if ended else "")
        )
        _table(
            ("job", "trainer", "lease", "step"),
            [
                (
                    each["job"],
                    each["trainer"][:_SHOWN],
                    f"{each['lease_seconds']:.0f} s" if each["lease_seconds"] > 0 else "ended",
                    f"{each['step']}/{each['steps']}",
                )
                for each in database["running"]
            ],
        )
    _table(
        ("address", "health"),
        [(each["address"], _health(each)) for each in found["health"]],
    )
    told = [name for name in FIGURES if any(name in each for each in found["metrics"])]
    _table(
        ("metrics", "role", *(name.replace("_", " ") for name in told)),
        [
            (
                each["address"],
                "does not answer" if "error" in each else each["role"] or "not ours",
                *(_figure(name, each.get(name)) for name in told),
            )
            for each in found["metrics"]
        ],
    )


def _health(told: dict[str, Any]) -> str:
    if "error" in told:
        return "does not answer"
    return "answers calls" if told["serving"] else "is starting or ending"


def _figure(name: str, value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.0f} MB" if name == "memory_bytes" else str(value)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        click.echo()
        print_table(columns, rows)
