"""``sotto-cloud jobs``: the provider's view of every tenant's jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from sottovoce.cloud.cli.options import state_option
from sottovoce.cloud.job import Job
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.store import Store
from sottovoce.edge.cli.common import Command, json_option, print_json


@contextmanager
def _jobs(state: Path) -> Iterator[Jobs]:
    store = Store(state)
    try:
        yield Jobs(store)
    finally:
        store.close()


def _view(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "tenant": job.tenant,
        "adapter": job.adapter,
        "state": str(job.state),
        "examples": job.next_sequence,
        "labels": len(job.labels),
        "level": job.release.level,
        "mechanism": job.release.mechanism,
        "reconstruction": job.training.reconstruction,
        "epoch": job.progress.epoch,
        "epochs": job.progress.epochs,
        "held_out_accuracy": round(job.progress.held_out_accuracy, 4),
        "message": job.message,
        "created": datetime.fromtimestamp(job.created, UTC).isoformat(timespec="seconds"),
    }


@click.group("jobs")
def command() -> None:
    """List, show, cancel or delete customisation jobs of all tenants."""


@command.command("list", cls=Command)
@state_option
@click.option("--tenant", help="Only this tenant's.")
@json_option
def list_(state: Path, tenant: str | None, as_json: bool) -> None:
    """All jobs, newest first."""
    found: list[Job] = []
    with _jobs(state) as jobs:
        token = ""
        while True:
            page, token = jobs.page(tenant, page_size=200, page_token=token)
            found += page
            if not token:
                break
    if as_json:
        print_json({"jobs": [_view(job) for job in found]})
        return
    columns = ("id", "tenant", "adapter", "state", "examples", "created")
    table = Table(box=None)
    for column in columns:  # an id cut short is of no use to `jobs show`
        table.add_column(column, no_wrap=True, min_width=24 if column == "id" else None)
    for job in found:
        view = _view(job)
        table.add_row(*(str(view[column]) for column in columns))
    Console().print(table)


@command.command("show", cls=Command)
@click.argument("job_id")
@state_option
@json_option
def show(job_id: str, state: Path, as_json: bool) -> None:
    """One job."""
    with _jobs(state) as jobs:
        _print(jobs.get(job_id), as_json)


@command.command("cancel", cls=Command)
@click.argument("job_id")
@state_option
@json_option
def cancel(job_id: str, state: Path, as_json: bool) -> None:
    """Cancel a job; a running one ends within a step."""
    with _jobs(state) as jobs:
        _print(jobs.cancel(job_id), as_json)


@command.command("delete", cls=Command)
@click.argument("job_id")
@state_option
@json_option
def delete(job_id: str, state: Path, as_json: bool) -> None:
    """Delete a job, its examples, its checkpoint and its adapter."""
    from sottovoce.cloud.worker import discard

    with _jobs(state) as jobs:
        job = jobs.get(job_id)
        if jobs.delete(job.id):
            discard(jobs, job)
    if as_json:
        print_json({"id": job_id, "deleted": True})
    else:
        click.echo(f"deleted {job_id}")


def _print(job: Job, as_json: bool) -> None:
    view = _view(job)
    if as_json:
        print_json(view)
        return
    for name, value in view.items():
        click.echo(f"{name.replace('_', ' '):<18} {value}")
