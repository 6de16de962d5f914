"""``sotto-cloud jobs``: the provider's view of every tenant's jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import objects_option, opened, state_option, store_option
from sottovoce.cloud.job import Job
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.store import audit_log
from sottovoce.core.platform.console import Command, json_option, print_json, print_table

_LESS: Final = ("progress", "examples")
"""Columns left out on a narrow terminal; `jobs show` has them."""


@click.group("jobs")
def command() -> None:
    """List, show, cancel or delete customisation jobs of all tenants."""


@command.command("list", cls=Command)
@state_option
@store_option
@objects_option
@click.option("--tenant", help="Only jobs of this tenant.")
@json_option
def list_(state: Path, store: str, objects: str, tenant: str | None, as_json: bool) -> None:
    """List all jobs, newest first."""
    found: list[Job] = []
    with opened(state, store, objects) as database:
        jobs = Jobs(database)
        token = ""
        while True:
            page, token = jobs.page(tenant, page_size=200, page_token=token)
            found += page
            if not token:
                break
    if as_json:
        print_json({"jobs": [views.job(job) for job in found]})
        return
    columns = ("id", "state", "tenant", "adapter", "level", "accuracy", "examples", "progress")
    shown = [views.job(job) | views.in_words(job) for job in found]
    print_table(columns, [[str(view[c]) for c in columns] for view in shown], _LESS)


@command.command("show", cls=Command)
@click.argument("job_id")
@state_option
@store_option
@objects_option
@json_option
def show(job_id: str, state: Path, store: str, objects: str, as_json: bool) -> None:
    """Show one job."""
    with opened(state, store, objects) as database:
        jobs = Jobs(database)
        _print(jobs.get(job_id), as_json)


@command.command("cancel", cls=Command)
@click.argument("job_id")
@state_option
@store_option
@objects_option
@json_option
def cancel(job_id: str, state: Path, store: str, objects: str, as_json: bool) -> None:
    """Cancel a job; a running one ends within a step."""
    from sottovoce.cloud.jobs import ending

    with opened(state, store, objects) as database:
        job = ending.cancel_as_provider(Jobs(database), job_id)
    _print(job, as_json)


@command.command("delete", cls=Command)
@click.argument("job_id")
@state_option
@store_option
@objects_option
@json_option
def delete(job_id: str, state: Path, store: str, objects: str, as_json: bool) -> None:
    """Delete a job, its examples, its checkpoint and its adapter."""
    from sottovoce.cloud.jobs import ending

    with opened(state, store, objects) as database:
        jobs = Jobs(database)
        tenant = jobs.get(job_id).tenant
        ending.delete(jobs, job_id)
        audit_log.note(database, "job deleted", tenant, job_id)
    if as_json:
        print_json({"id": job_id, "deleted": True})
    else:
        click.echo(f"deleted {job_id}")


def _print(job: Job, as_json: bool) -> None:
    view = views.job(job)
    if as_json:
        print_json(view)
        return
    for name, value in view.items():
        click.echo(f"{name.replace('_', ' '):<18} {value}")
