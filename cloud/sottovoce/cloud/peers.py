"""Query processes of a cloud: by gRPC health checks, and by their Prometheus metrics."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from sottovoce.core.errors import Unavailable

__all__ = ["FIGURES", "answers_calls", "figures"]

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
