"""Errors in the form that clients of OpenAI's API expect."""

from __future__ import annotations

import logging
from typing import Final

from sottovoce.core import errors
from sottovoce.core.page.gate import Failure
from sottovoce.core.rpc.status import RETRY_SECONDS, kind_and_place

__all__ = ["failure"]

_log = logging.getLogger(__name__)

_REQUEST, _SERVER = "invalid_request_error", "server_error"

# The first match counts. When the cloud or another server refuses *our* credentials, the client's
# may be right, hence 502.
_STATUS: Final[tuple[tuple[type[errors.SottovoceError], int, str], ...]] = (
    (errors.InvalidInput, 400, _REQUEST),
    (errors.OutOfRange, 400, _REQUEST),
    (errors.NotFound, 404, _REQUEST),
    (errors.NotReady, 409, _REQUEST),
    (errors.QuotaExceeded, 429, "insufficient_quota"),
    (errors.Overloaded, 429, "rate_limit_error"),
    (errors.Unavailable, 503, _SERVER),
    (errors.Unauthenticated, 502, _SERVER),
)


def failure(error: BaseException) -> Failure:
    """Turn an error into a response; unexpected errors are logged without their text."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, errors.SottovoceError):
        _log.error("unexpected %s", kind_and_place(error))
        error = errors.SottovoceError(f"internal error ({type(error).__name__})")
    status, kind = next(
        ((status, kind) for each, status, kind in _STATUS if isinstance(error, each)),
        (500, _SERVER),
    )
    again = (("Retry-After", str(RETRY_SECONDS)),) if isinstance(error, errors.Unavailable) else ()
    return Failure(status, str(error), kind, error.subject, _code(error), again)


def _code(error: errors.SottovoceError) -> str:
    """
    >>> _code(errors.NotFound(""))
    'not_found'
    """
    return error.reason.lower()
