"""The provider's views of jobs, tenants, tokens, acts and processes, as plain values.

The commands' --json output and the provider's page share these values. None of them holds a
tenant's text. Names of adapters are chosen by tenants, and opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs.overview import overview
from sottovoce.cloud.peers import answers_calls, figures
from sottovoce.cloud.state.audit_log import AuditEvent
from sottovoce.cloud.state.credentials import Credential
from sottovoce.cloud.state.database import Database, when
from sottovoce.cloud.state.tenants import Tenant
from sottovoce.core.errors import SottovoceError

__all__ = ["View", "act", "ask_for", "in_words", "job", "jobs_at_a_glance", "processes"]
__all__ += ["tenant", "token"]

View = dict[str, Any]
_AT_ONCE: Final = 8
"""Processes queried at once; a process that does not answer takes seconds."""


def job(one: Job) -> View:
    """Return a job's public fields."""
    told = one.progress
    return {
        "id": one.id,
        "tenant": one.tenant,
        "adapter": one.adapter,
        "state": str(one.state),
        "examples": one.next_sequence,
        "bytes": one.bytes,
        "labels": len(one.labels),
        "level": one.release.level,
        "mechanism": one.release.mechanism,
        "method": str(one.training.method),
        "reconstruction": one.training.reconstruction,
        "epoch": told.epoch,
        "epochs": told.epochs,
        "step": told.step,
        "steps": told.steps,
        "loss": round(told.loss, 4),
        "reconstruction_loss": round(told.reconstruction_loss, 4),
        "held_out_accuracy": round(told.held_out_accuracy, 4),
        "examples_per_second": round(told.examples_per_second, 1),
        "seconds_left": round(told.seconds_left, 1),
        "seconds_trained": round(one.trained, 1),
        "message": one.message,
        "created": when(one.created),
    }


def in_words(one: Job) -> dict[str, str]:
    """Return a job's held-out accuracy and its progress; empty before the first step."""
    told = one.progress
    if not told.step:
        return {"accuracy": "", "progress": ""}
    parts = [f"epoch {told.epoch}/{told.epochs}", f"loss {told.loss:.2f}"]
    if told.reconstruction_loss:
        parts.append(f"rec {told.reconstruction_loss:.2f}")
    if one.state == State.RUNNING:
        parts.append(f"{told.examples_per_second:.0f} examples/s")
        parts.append(f"{told.seconds_left:.0f} s left")
    return {"accuracy": f"{told.held_out_accuracy:.1%}", "progress": ", ".join(parts)}


def tenant(one: Tenant) -> View:
    """Return a tenant."""
    ends = "" if one.next_end is None else when(one.next_end)
    return {**asdict(one), "created": when(one.created), "next_end": ends}


def token(one: Credential, now: float) -> View:
    """Return a token's record, without the token."""
    over = "revoked" if one.revoked else "over"
    return {
        "number": one.number,
        "tenant": one.tenant,
        "name": one.name,
        "scope": str(one.scope),
        "state": "valid" if one.valid_at(now) else over,
        "created": when(one.created),
        "ends": "" if one.ends is None else when(one.ends),
    }


def act(one: AuditEvent) -> View:
    """Return an entry of the audit log."""
    return {**asdict(one), "done": when(one.done)}


def jobs_at_a_glance(database: Database) -> View:
    """Return job counts by state, queue length, and active trainers."""
    found = overview(database)
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


def ask_for(question: Callable[[], View]) -> View:
    """Return the answer, or the error and its fix."""
    try:
        return question()
    except SottovoceError as error:
        return {"error": error.problem, "fix": error.fix}


def processes(health: Iterable[str], metrics: Iterable[str], tls_ca: Path | None) -> View:
    """Query all processes at once.

    Args:
        health: addresses for health checks.
        metrics: addresses of metrics.
        tls_ca: PEM to trust for health checks; plaintext if None.
    """

    def well(address: str) -> View:
        found = ask_for(lambda: {"serving": answers_calls(address, tls_ca)})
        return {"address": address, **found}

    def counted(address: str) -> View:
        return {"address": address, **ask_for(lambda: figures(address))}

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        asked, read = threads.map(well, health), threads.map(counted, metrics)
        return {"health": [*asked], "metrics": [*read]}
