"""``sotto-cloud status``, ``health``, ``ui`` and ``jobs``: the processes, and all tenants' jobs."""

from __future__ import annotations

import os
import signal
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import (
    figures_option,
    health_option,
    objects_option,
    on_database,
    opened,
    say,
    state_option,
    store_option,
    tls_ca_option,
)
from sottovoce.cloud.config import DEFAULT_LISTEN
from sottovoce.cloud.job import Job
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.page import changes, endpoints, page_server
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.views import FIGURES, answers_calls
from sottovoce.core.errors import NotReady, Unavailable
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    print_json,
    print_table,
)
from sottovoce.core.platform.threads import Ending


@click.command("ui", cls=Command)
@state_option
@store_option
@objects_option
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="Address of the page, on loopback.  [default: a free port]",
)
@health_option
@figures_option
@tls_ca_option
@click.option(
    "--open/--no-open",
    " /--no-browser",
    "show",
    default=None,
    help="Open the page in this desktop's browser.  [default: if there is a desktop]",
)
def ui_command(
    state: Path,
    store: str,
    objects: str,
    listen: str,
    health: tuple[str, ...],
    metrics: tuple[str, ...],
    tls_ca: Path | None,
    show: bool | None,
    as_json: bool,
) -> None:
    """Serve a page of jobs, tenants and processes on loopback, until SIGTERM or Ctrl-C.

    The page shows the results of status, jobs, tenants, tokens and audit-log, updated every
    few seconds. It can cancel a job, set a limit, and make or revoke a token; the audit log
    notes each. The link works once, for ten minutes. Addresses for --health and --metrics may
    be in the file that --config names, in a table [ui]. With --json, the command prints one
    object {"url": LINK, "pid": PID} and opens no browser.
    """
    ending = Ending()
    if_interrupted("the page is closed", "`sotto-cloud ui` opens another")
    # Only cancelling a job uses the objects, and it checks them then.
    with opened(state, store, objects, check=False) as database:
        told = endpoints(database, health, metrics, tls_ca)
        with page_server(listen, told, changes(database)) as server:
            url = server.link()
            if as_json:
                print_json({"url": url, "pid": os.getpid()})
            else:
                click.echo(url)
                desktop = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
                if show or (show is None and desktop):
                    webbrowser.open(url)
            ended_by = ending.wait()
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt


_SHOWN: Final = 8
"""Displayed letters of a trainer's random name."""
_LESS: Final = ("answered", "adapter loads", "waiting", "adapters", "steps", "calls ok")
"""Figures left out on a narrow terminal, the least important one first."""


@click.command("status", cls=Command)
@state_option
@store_option
@health_option
@figures_option
@tls_ca_option
@click.pass_context
def status(
    ctx: click.Context,
    state: Path,
    store: str,
    health: tuple[str, ...],
    metrics: tuple[str, ...],
    tls_ca: Path | None,
    as_json: bool,
) -> None:
    """Show jobs, queue and trainers from the database, and the processes' own reports.

    The database knows only the trainers with a job; --metrics also shows idle ones.
    Addresses may be in the file that --config names, in a table [status]. Ends with 6 if the
    database or an address does not answer; all other results are shown.
    """

    def jobs() -> views.View:
        with opened(state, store) as database:
            return views.jobs_at_a_glance(database)

    database = views.ask_for(jobs)
    found = {"database": database, **views.processes(health, metrics, tls_ca)}
    parts = (database, *found["health"], *found["metrics"])
    found["well"] = all("error" not in part and part.get("serving", True) for part in parts)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found["well"]:
        ctx.exit(Unavailable.exit_code)


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
    _table(("address", "state"), [(each["address"], each["state"]) for each in found["health"]])
    told = [name for name in FIGURES if any(name in each for each in found["metrics"])]
    _table(
        ("metrics", "role", *map(_heading, told)),
        [
            (
                each["address"],
                each.get("role") or each["state"],
                *(_figure(name, each.get(name)) for name in told),
            )
            for each in found["metrics"]
        ],
        _LESS,
    )


def _figure(name: str, value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.0f} MB" if name == "memory_bytes" else str(value)


def _heading(name: str) -> str:
    return "memory" if name == "memory_bytes" else name.replace("_", " ")


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()
) -> None:
    if rows:
        click.echo()
        print_table(columns, rows, spare)


@click.command("health", cls=Command)
@click.argument("address", default=DEFAULT_LISTEN)
@tls_ca_option
def health(address: str, tls_ca: Path | None, as_json: bool) -> None:
    """Ask the server, replica, front or balancer at ADDRESS whether it answers calls.

    The call is in plaintext without --tls-ca. A supervisor can use it to restart a process.
    """
    if not answers_calls(address, tls_ca):
        raise NotReady(f"{address} is starting or ending", fix="ask again soon")
    say(as_json, {"address": address, "serving": True}, f"{address} is serving")


_LESS_OF_JOBS: Final = ("progress", "examples")
"""Columns left out on a narrow terminal; `jobs show` has them."""


@click.group("jobs")
def jobs_command() -> None:
    """List, show, cancel or delete customisation jobs of all tenants."""


@jobs_command.command("list", cls=Command)
@on_database(objects=True)
@click.option("--tenant", help="Only jobs of this tenant.")
def list_(database: Database, tenant: str | None, as_json: bool) -> None:
    """List all jobs, newest first."""
    found = list(Jobs(database).every(tenant))
    if as_json:
        print_json({"jobs": [views.job(job) for job in found]})
        return
    columns = ("id", "state", "tenant", "adapter", "level", "accuracy", "examples", "progress")
    shown = [views.job(job) | views.in_words(job) for job in found]
    print_table(columns, [[str(view[c]) for c in columns] for view in shown], _LESS_OF_JOBS)


@jobs_command.command("show", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
def show(database: Database, job_id: str, as_json: bool) -> None:
    """Show one job."""
    _print_job(Jobs(database).get(job_id), as_json)


@jobs_command.command("cancel", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
def cancel(database: Database, job_id: str, as_json: bool) -> None:
    """Cancel a job; a running one ends within a step."""
    from sottovoce.cloud.jobs import ending

    _print_job(ending.cancel_as_provider(Jobs(database), job_id), as_json)


@jobs_command.command("delete", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
def delete(database: Database, job_id: str, as_json: bool) -> None:
    """Delete a job, its examples, its checkpoint and its adapter."""
    from sottovoce.cloud.jobs import ending

    jobs = Jobs(database)
    tenant = jobs.get(job_id).tenant
    ending.delete(jobs, job_id)
    audit_log.note(database, "job deleted", tenant, job_id)
    say(as_json, {"id": job_id, "deleted": True}, f"deleted {job_id}")


def _print_job(job: Job, as_json: bool) -> None:
    view = views.job(job)
    if as_json:
        print_json(view)
        return
    for name, value in view.items():
        click.echo(f"{name.replace('_', ' '):<18} {value}")
