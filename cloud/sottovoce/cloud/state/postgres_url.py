"""What `--store` says of a server, checked before libpq sees it.

Why it is here: the URL may hold a password, and where its special characters are not escaped libpq
takes part of it for a host or a port and quotes that in its errors.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sottovoce.core.errors import ConfigError

__all__ = ["conninfo"]

_LINE: Final = {
    "connect_timeout": 5,
    # A server that is gone without a word is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Seconds, but for the last: milliseconds. What the URL says goes before it."""


def conninfo(url: str) -> str:
    """The URL as libpq takes it, with an end to every wait for the line.

    Raises:
        ConfigError: it is none; without a word of it.
    """
    try:
        given = conninfo_to_dict(url.strip())  # files of secrets end with a newline
    except psycopg.ProgrammingError:
        given = {"host": "@"}
    ports = str(given.get("port", "")).split(",")
    if "@" in str(given.get("host", "")) or any(not p.isdecimal() for p in ports if p):
        raise ConfigError(
            "--store is no URL of a database",  # which may hold a password: not quoted
            fix="give one like postgresql://user@host/database; in a password write %40 for @, "
            "%2F for / and so on",
            subject="store",
        )
    return make_conninfo("", **(_LINE | given))
