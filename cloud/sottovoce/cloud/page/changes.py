"""The changes that the page can make, each by the function that its command uses.

Each is a POST with a session, so no other page can make it. Each leaves an entry in the audit log.
Changes that cannot be undone by another change of the page, beyond ending a job or a token, are
left to the commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sottovoce.cloud import views
from sottovoce.cloud.jobs import ending
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.page.endpoints import Endpoint, only
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.store.opening import check_objects
from sottovoce.cloud.tenants import quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from sottovoce.core.errors import InvalidInput

__all__ = ["DAYS", "changes"]

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
