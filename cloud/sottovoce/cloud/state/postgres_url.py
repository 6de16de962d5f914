"""Check a PostgreSQL URL of `--store` before libpq reads it.

The URL may hold a password. If its special characters are not escaped, libpq takes part of the
password for a host or a port, and quotes that part in its errors.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sottovoce.core.errors import ConfigError

__all__ = ["conninfo"]

_LINE: Final = {
    "connect_timeout": 5,
    # A server that disappears silently is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Seconds; the last value is in milliseconds. Options in the URL take precedence."""


def conninfo(url: str) -> str:
    """Return the URL for libpq, with a timeout for every wait on the network.

    Raises:
        ConfigError: the URL is invalid; the error does not quote it.
    """
    try:
        given = conninfo_to_dict(url.strip())  # files of secrets end with a newline
    except psycopg.ProgrammingError:
        given = {"host": "@"}
    ports = str(given.get("port", "")).split(",")
    if "@" in str(given.get("host", "")) or any(not p.isdecimal() for p in ports if p):
        raise ConfigError(
            "--store is no URL of a database",  # not quoted: it may hold a password
            fix="give one like postgresql://user@host/database; in a password write %40 for @, "
            "%2F for / and so on",
            subject="store",
        )
    return make_conninfo("", **(_LINE | given))
