"""``sotto-cloud jobs``: the provider's view of every tenant's jobs."""

from __future__ import annotations

from typing import Final

import click

from sottovoce.cloud import views
from sottovoce.cloud.cli.options import on_database, say
from sottovoce.cloud.job import Job
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.database import Database
from sottovoce.core.platform.console import Command, json_option, print_json, print_table

_LESS: Final = ("progress", "examples")
"""Columns left out on a narrow terminal; `jobs show` has them."""


@click.group("jobs")
def command() -> None:
    """List, show, cancel or delete customisation jobs of all tenants."""


@command.command("list", cls=Command)
@on_database(objects=True)
@click.option("--tenant", help="Only jobs of this tenant.")
@json_option
def list_(database: Database, tenant: str | None, as_json: bool) -> None:
    """List all jobs, newest first."""
    found = list(Jobs(database).every(tenant))
    if as_json:
        print_json({"jobs": [views.job(job) for job in found]})
        return
    columns = ("id", "state", "tenant", "adapter", "level", "accuracy", "examples", "progress")
    shown = [views.job(job) | views.in_words(job) for job in found]
    print_table(columns, [[str(view[c]) for c in columns] for view in shown], _LESS)


@command.command("show", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
@json_option
def show(database: Database, job_id: str, as_json: bool) -> None:
    """Show one job."""
    _print(Jobs(database).get(job_id), as_json)


@command.command("cancel", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
@json_option
def cancel(database: Database, job_id: str, as_json: bool) -> None:
    """Cancel a job; a running one ends within a step."""
    from sottovoce.cloud.jobs import ending

    _print(ending.cancel_as_provider(Jobs(database), job_id), as_json)


@command.command("delete", cls=Command)
@click.argument("job_id")
@on_database(objects=True)
@json_option
def delete(database: Database, job_id: str, as_json: bool) -> None:
    """Delete a job, its examples, its checkpoint and its adapter."""
    from sottovoce.cloud.jobs import ending

    jobs = Jobs(database)
    tenant = jobs.get(job_id).tenant
    ending.delete(jobs, job_id)
    audit_log.note(database, "job deleted", tenant, job_id)
    say(as_json, {"id": job_id, "deleted": True}, f"deleted {job_id}")


def _print(job: Job, as_json: bool) -> None:
    view = views.job(job)
    if as_json:
        print_json(view)
        return
    for name, value in view.items():
        click.echo(f"{name.replace('_', ' '):<18} {value}")
