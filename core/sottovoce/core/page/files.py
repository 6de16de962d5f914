"""A page's own files, and what a browser is told of all that comes with them."""

from __future__ import annotations

from importlib import resources
from typing import Final, NamedTuple

__all__ = ["HEADERS", "File", "files"]

HEADERS: Final = (
    # Nothing but the page's own files, and no text that becomes markup.
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)

_SHARED: Final = "sottovoce.core.page"
_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


class File(NamedTuple):
    """What a path is answered with, and its media type."""

    body: bytes
    kind: str


def files(package: str) -> dict[str, File]:
    """By path: ``index.html`` (as "/") and ``page.js`` of the folder ``static`` of ``package``,
    and the look and the parts of scripts that pages share."""
    places = (
        ("/", package, "index.html"),
        ("/page.js", package, "page.js"),
        ("/look.css", _SHARED, "look.css"),
        ("/parts.js", _SHARED, "parts.js"),
    )
    return {path: _read(place, name) for path, place, name in places}


def _read(package: str, name: str) -> File:
    body = resources.files(package).joinpath("static", name).read_bytes()
    return File(body, f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8")
