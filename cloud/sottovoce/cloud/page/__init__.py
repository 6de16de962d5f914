"""The page's server, and its data: the database's tables and process metrics, in bounded parts.

The page shows the data of `sotto-cloud jobs`, `tenants`, `tokens`, `audit-log` and `status`.
`endpoints` only read.

`changes` are those that the page can make, each by the function that its command uses. Each is a
POST with a session, so no other page can make it. Each leaves an entry in the audit log. Changes
that cannot be undone by another change of the page, beyond ending a job or a token, are left to the
commands.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from sottovoce.cloud import views
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import Jobs, ending
from sottovoce.cloud.store import check_objects
from sottovoce.cloud.store.audit_log import recorded
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from sottovoce.core.errors import InvalidInput
from sottovoce.core.http.messages import Request, Response
from sottovoce.core.http.page import PageServer

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

LARGEST_BODY: Final = 4096
"""Bytes of a request that changes something."""

Endpoint = Callable[[Mapping[str, str]], Any]
"""Returns an endpoint's data as JSON values, from the fields of the query or of the body."""


def page_server(
    address: str, endpoints: Mapping[str, Endpoint], changes: Mapping[str, Endpoint] | None = None
) -> PageServer:
    """Return the server of the provider's page.

    Args:
        address: "HOST:PORT", on loopback; port 0 takes a free port.
        endpoints: by path, for clients with a session that GET.
        changes: the same for clients that POST a JSON object of strings; by default none.

    Raises:
        ConfigError: the address is not on loopback, or not free.
    """

    def answer(endpoint: Endpoint, request: Request) -> Response:
        return Response(json.dumps(endpoint(_fields(request.query))).encode())

    def change(endpoint: Endpoint, request: Request) -> Response:
        return Response(json.dumps(endpoint(_sent(request.body))).encode())

    changing = {path: ("POST", partial(change, each)) for path, each in (changes or {}).items()}
    return PageServer(
        address,
        "--listen",
        "sottovoce.cloud.page",
        {path: ("GET", partial(answer, each)) for path, each in endpoints.items()} | changing,
        "sotto-cloud ui",
        largest_body=LARGEST_BODY if changing else 0,
        calls=CALLS_AT_ONCE,
    )


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise InvalidInput(
            "the query cannot be read", fix=f"ask for {_MOST_FIELDS} things at most"
        ) from None


def _sent(body: bytes) -> dict[str, str]:
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # refuses half a surrogate pair
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidInput("the body cannot be read", fix="send a JSON object of strings")
    return found


def endpoints(
    database: Database, health: Sequence[str], metrics: Sequence[str], tls_ca: Path | None
) -> dict[str, Endpoint]:
    """Return the endpoint of each path; they only read. See `views.processes` for the rest."""

    def overview(asked: Mapping[str, str]) -> views.View:
        only(asked)
        return {"version": version("sottovoce-cloud"), **views.jobs_at_a_glance(database)}

    def jobs(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant", "state", "page")
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
        return {"jobs": [job | age for job, age in zip(told, ages, strict=True)], "next": following}

    def tenants(asked: Mapping[str, str]) -> views.View:
        only(asked, "begins", "page")
        found = Tenants(database).page(
            begins=asked.get("begins", ""), after=asked.get("page", ""), most=A_PAGE + 1
        )
        shown = found[:A_PAGE]
        return {
            "tenants": [views.tenant(each) for each in shown],
            "next": shown[-1].name if len(found) > A_PAGE else "",
        }

    def tenant(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant")
        name = asked.get("tenant", "")
        limits = views.limits(database, name)
        found, more, now = Credentials(database).newest(name, MOST_TOKENS)
        return {
            "tokens": [views.token(each, now) for each in found],
            "more": more,
            "limits": limits,
        }

    def acts(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant")
        found = recorded(database, most=A_PAGE, tenant=asked.get("tenant", ""))
        return {"acts": [views.act(each) for each in found]}

    fresh = _Fresh(lambda: views.processes(health, metrics, tls_ca))

    def processes(asked: Mapping[str, str]) -> views.View:
        only(asked)
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


def only(asked: Mapping[str, str], *known: str) -> None:
    """Raise `InvalidInput` if the request has other fields than the known ones."""
    if set(asked) - set(known):
        raise InvalidInput(
            "the request asks for what there is not",
            fix=f"ask with {', '.join(known) or 'nothing'}",
            subject="request",
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


DAYS: Final = ("", "1", "7", "30", "90", "365")
"""Lifetimes of a token in days; "" is unlimited."""
_SECONDS: Final = 86_400.0


def changes(database: Database) -> dict[str, Endpoint]:
    """Return the endpoint of each path, for the fields of a request's body.

    Args:
        database: the cloud's. Its objects are looked at only when a job is cancelled.
    """

    def cancel_job(asked: Mapping[str, str]) -> views.View:
        only(asked, "id")
        check_objects(database, bind=False)
        return views.job(ending.cancel_as_provider(Jobs(database), _given(asked, "id")))

    def set_limit(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant", "limit", "value")
        tenant = _given(asked, "tenant")
        value = quotas.value_of(asked.get("value", ""))
        quotas.change(database, tenant, _given(asked, "limit"), value)
        return {"limits": views.limits(database, tenant)}

    def new_token(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant", "name", "scope", "days")
        scope = _one_of(asked, "scope", [str(each) for each in Scope])
        days = _one_of(asked, "days", DAYS)
        token = Credentials(database).new(
            _given(asked, "tenant"),
            _given(asked, "name"),
            scope=Scope(scope),
            seconds=int(days) * _SECONDS if days else None,
        )
        return {"token": token}

    def revoke_token(asked: Mapping[str, str]) -> views.View:
        only(asked, "tenant", "number")
        # An empty number would revoke every token of the tenant.
        tenant, number = _given(asked, "tenant"), _given(asked, "number")
        if not number.isdecimal():
            raise InvalidInput(
                "the page names a token by its number", fix="give the number", subject="number"
            )
        return {"revoked": Credentials(database).revoke(tenant, number)}

    return {
        "/api/jobs/cancel": cancel_job,
        "/api/limits/set": set_limit,
        "/api/tokens/new": new_token,
        "/api/tokens/revoke": revoke_token,
    }


def _given(asked: Mapping[str, str], name: str) -> str:
    value = asked.get(name, "")
    if not value:
        raise InvalidInput(f"the request has no {name}", fix="give one", subject=name)
    return value


def _one_of(asked: Mapping[str, str], name: str, known: list[str] | tuple[str, ...]) -> str:
    value = asked.get(name, known[0])
    if value not in known:
        said = ", ".join(each or "nothing" for each in known)
        raise InvalidInput(f"there is no such {name}", fix=f"use one of: {said}", subject=name)
    return value
