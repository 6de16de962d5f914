"""The provider's views of jobs, tenants, tokens, acts and processes, as plain values.

The commands' --json output and the provider's page share these values. They contain no tenant's
text. Names of adapters are chosen by tenants, and opaque. Health and metrics come from the
processes themselves (`answers_calls`, `figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs.queue import overview
from sottovoce.cloud.store.audit_log import AuditEvent
from sottovoce.cloud.store.database import Database, when
from sottovoce.cloud.tenants import Tenant, quotas
from sottovoce.cloud.tenants.credentials import Credential
from sottovoce.core.errors import SottovoceError, Unavailable

_SECONDS: Final = 5.0
_LARGEST: Final = 1 << 20
_DIRECT: Final = (("grpc.enable_http_proxy", 0),)
_opener: Final = build_opener(ProxyHandler({}))
"""Bypasses the environment's proxy, which is for outside addresses."""

FIGURES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "calls": ("sottovoce_calls_total", {}),
    "calls_ok": ("sottovoce_calls_total", {"code": "OK"}),
    "waiting": ("sottovoce_waiting_requests", {}),
    "answered": ("sottovoce_request_seconds_count", {}),
    "adapters": ("sottovoce_adapters", {}),
    "adapter_loads": ("sottovoce_adapter_loads_total", {}),
    "jobs_done": ("sottovoce_trainer_jobs_total", {"outcome": "succeeded"}),
    "jobs_failed": ("sottovoce_trainer_jobs_total", {"outcome": "failed"}),
    "steps": ("sottovoce_trainer_steps_total", {}),
    "busy": ("sottovoce_trainer_busy", {}),
    "memory_bytes": ("process_resident_memory_bytes", {}),
}
"""The reported figures of a process, each the sum of a metric's samples with certain labels."""


def answers_calls(address: str, tls_ca: Path | None = None) -> bool:
    """Return whether the process at ``address`` accepts calls; false while it starts or ends.

    Args:
        address: HOST:PORT or unix:PATH of a server, replica, front or balancer.
        tls_ca: PEM to trust; plaintext if None.

    Raises:
        Unavailable: no process answers there.
    """
    if tls_ca is None:
        channel = grpc.insecure_channel(address, _DIRECT)
    else:
        trusted = grpc.ssl_channel_credentials(tls_ca.read_bytes())
        channel = grpc.secure_channel(address, trusted, _DIRECT)
    with channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_SECONDS
            )
        except grpc.RpcError as error:
            raise Unavailable(
                f"nobody who answers calls is at {address}",
                fix="start it, or correct the address and --tls-ca",
            ) from error
    serving: bool = answer.status == health_pb2.HealthCheckResponse.SERVING
    return serving


def figures(address: str) -> dict[str, Any]:
    """Return a process's role and its `FIGURES`, from its metrics at ``address`` (HOST:PORT).

    The role is "" if the metrics are not from this project.

    Raises:
        Unavailable: no metrics there.
    """
    try:
        with _opener.open(f"http://{address}/metrics", timeout=_SECONDS) as answer:
            told = answer.read(_LARGEST).decode()
        families = list(text_string_to_metric_families(told))
    except (OSError, ValueError, HTTPException) as error:
        raise Unavailable(
            f"nobody tells metrics at {address}",
            fix="start it with --metrics, or correct the address",
        ) from error
    samples = [sample for family in families for sample in family.samples]
    roles = [s.labels.get("role", "") for s in samples if s.name == "sottovoce_process_info"]
    found: dict[str, Any] = {"role": roles[0] if roles else ""}
    for name, (metric, labels) in FIGURES.items():
        values = [
            s.value
            for s in samples
            if s.name == metric and labels.items() <= s.labels.items() and isfinite(s.value)
        ]
        if any(s.name == metric for s in samples):
            found[name] = round(sum(values))
    return found


View = dict[str, Any]
NO_ANSWER: Final = "no answer"
"""The state of a process that does not answer."""
_AT_ONCE: Final = 8
"""Processes queried at once; a process that does not answer takes seconds."""


def job(one: Job) -> View:
    told = one.progress
    return {
        "id": one.id,
        "tenant": one.tenant,
        "adapter": one.adapter,
        "state": one.state.lower(),
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
    """Return a job's held-out accuracy and its progress; empty until there is one."""
    told = one.progress
    if not told.step:
        return {"accuracy": "", "progress": ""}
    parts = [f"epoch {told.epoch}/{told.epochs}", f"loss {told.loss:.2f}"]
    if told.reconstruction_loss:
        parts.append(f"rec {told.reconstruction_loss:.2f}")
    if one.state == State.RUNNING:
        parts.append(f"{told.examples_per_second:.0f} examples/s")
        parts.append(f"{told.seconds_left:.0f} s left")
    accuracy = f"{told.held_out_accuracy:.1%}" if told.held_out_accuracy else ""
    return {"accuracy": accuracy, "progress": ", ".join(parts)}


def tenant(one: Tenant) -> View:
    """Return a tenant; its state is enabled or disabled."""
    told = asdict(one)
    state = "disabled" if told.pop("disabled") else "enabled"
    ends = "" if one.next_end is None else when(one.next_end)
    return {**told, "state": state, "created": when(one.created), "next_end": ends}


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


def limits(database: Database, tenant: str) -> View:
    """Return a tenant's limits by name: value, unit and origin."""
    found = quotas.in_force(database, tenant)
    return {name: {**asdict(each), "unit": quotas.UNITS[name]} for name, each in found.items()}


def act(one: AuditEvent) -> View:
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
    """Query all processes at once; ``tls_ca`` is for health checks, see `answers_calls`."""

    def well(address: str) -> View:
        found = ask_for(lambda: {"serving": answers_calls(address, tls_ca)})
        state = "serving" if found.get("serving") else "starting or ending"
        return {"address": address, "state": NO_ANSWER if "error" in found else state, **found}

    def counted(address: str) -> View:
        found = ask_for(lambda: figures(address))
        state = "serving" if found.get("role") else "another program"
        return {"address": address, "state": NO_ANSWER if "error" in found else state, **found}

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        asked, read = threads.map(well, health), threads.map(counted, metrics)
        return {"health": [*asked], "metrics": [*read]}
