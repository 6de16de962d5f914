"""The page's data: the database's tables and process metrics, in bounded parts.

The page shows the data of `sotto-cloud jobs`, `tenants`, `tokens`, `audit-log` and `status`.
Everything here reads; nothing changes anything.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from sottovoce.cloud import views
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.store.audit_log import recorded
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import quotas
from sottovoce.cloud.tenants.credentials import Credentials
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import InvalidInput
from sottovoce.core.http.messages import Request, Response
from sottovoce.core.http.page import PageServer

__all__ = ["A_PAGE", "CALLS_AT_ONCE", "MOST_TOKENS", "Endpoint", "endpoints", "page_server"]

A_PAGE: Final = 50
"""Jobs, tenants and log entries in one response."""
MOST_TOKENS: Final = 200
"""The newest tokens of one tenant."""
_MOST_FIELDS: Final = 8
"""Fields of one query."""
CALLS_AT_ONCE: Final = 8
"""Requests in progress, each on a thread with a connection to the database."""
_FRESH_SECONDS: Final = 2.0
"""How long process metrics are cached, so that frequent page loads do not reach the processes."""

Endpoint = Callable[[Mapping[str, str]], Any]
"""Returns an endpoint's data as JSON values, from the request's query."""


def page_server(address: str, endpoints: Mapping[str, Endpoint]) -> PageServer:
    """Return the server of the provider's page; it reads no request bodies.

    Args:
        address: "HOST:PORT", on loopback; port 0 takes a free port.
        endpoints: by path, for clients with a session.

    Raises:
        ConfigError: the address is not on loopback, or not free.
    """

    def answer(endpoint: Endpoint, request: Request) -> Response:
        return Response(json.dumps(endpoint(_fields(request.query))).encode())

    return PageServer(
        address,
        "--listen",
        "sottovoce.cloud.page",
        {path: ("GET", partial(answer, each)) for path, each in endpoints.items()},
        "sotto-cloud ui",
        largest_body=0,
        calls=CALLS_AT_ONCE,
    )


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise InvalidInput(
            "the query cannot be read", fix=f"ask for {_MOST_FIELDS} things at most"
        ) from None


def endpoints(
    database: Database, health: Sequence[str], metrics: Sequence[str], tls_ca: Path | None
) -> dict[str, Endpoint]:
    """Return the endpoint of each path.

    Args:
        database: the cloud's database; only read.
        health, metrics, tls_ca: see `views.processes`.
    """

    def overview(asked: Mapping[str, str]) -> views.View:
        _only(asked)
        return {"version": version("sottovoce-cloud"), **views.jobs_at_a_glance(database)}

    def jobs(asked: Mapping[str, str]) -> views.View:
        _only(asked, "tenant", "state", "page")
        found, following = Jobs(database).page(
            asked.get("tenant"),
            state=_state(asked.get("state", "")),
            page_size=A_PAGE,
            page_token=asked.get("page", ""),
        )
        told = [views.job(each) | views.in_words(each) for each in found]
        with database.read() as transaction:
            now = transaction.now()
        ages = [{"age_seconds": round(max(0.0, now - each.created))} for each in found]
        return {
            "jobs": [job | age for job, age in zip(told, ages, strict=True)],
            "next": following,
        }

    def tenants(asked: Mapping[str, str]) -> views.View:
        _only(asked, "begins", "page")
        found = Tenants(database).page(
            begins=asked.get("begins", ""), after=asked.get("page", ""), most=A_PAGE + 1
        )
        shown = found[:A_PAGE]
        return {
            "tenants": [views.tenant(each) for each in shown],
            "next": shown[-1].name if len(found) > A_PAGE else "",
        }

    def tenant(asked: Mapping[str, str]) -> views.View:
        _only(asked, "tenant")
        name = asked.get("tenant", "")
        limits = quotas.in_force(database, name)
        found, more, now = Credentials(database).newest(name, MOST_TOKENS)
        return {
            "tokens": [views.token(each, now) for each in found],
            "more": more,
            "limits": {
                each: {**asdict(limit), "unit": quotas.UNITS[each]}
                for each, limit in limits.items()
            },
        }

    def acts(asked: Mapping[str, str]) -> views.View:
        _only(asked, "tenant")
        found = recorded(database, most=A_PAGE, tenant=asked.get("tenant", ""))
        return {"acts": [views.act(each) for each in found]}

    fresh = _Fresh(lambda: views.processes(health, metrics, tls_ca))

    def processes(asked: Mapping[str, str]) -> views.View:
        _only(asked)
        return fresh.value()

    return {
        "/api/overview": overview,
        "/api/processes": processes,
        "/api/jobs": jobs,
        "/api/tenants": tenants,
        "/api/tenant": tenant,
        "/api/acts": acts,
    }


class _Fresh:
    """A result at most `_FRESH_SECONDS` old; one thread refreshes it for all."""

    def __init__(self, look: Callable[[], views.View]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._found: views.View = {}
        self._until = 0.0

    def value(self) -> views.View:
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = self._look()
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._found


def _only(asked: Mapping[str, str], *known: str) -> None:
    if set(asked) - set(known):
        raise InvalidInput(
            "the request asks for what there is not",
            fix=f"ask with {', '.join(known) or 'nothing'}",
            subject="query",
        )


def _state(name: str) -> State | None:
    if not name:
        return None
    try:
        return State(name.upper())
    except ValueError:
        raise InvalidInput(
            "there is no such state",
            fix=f"use one of: {', '.join(each.lower() for each in State)}",
            subject="state",
        ) from None
