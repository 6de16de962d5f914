"""A page's static files, and the security headers sent with them."""

from __future__ import annotations

from importlib import resources
from typing import Final, NamedTuple

__all__ = ["HEADERS", "File", "files"]

HEADERS: Final = (
    # Loads only the page's own files, and never lets a text become markup.
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
    """The content of a static file, and its media type."""

    body: bytes
    kind: str


def files(package: str) -> dict[str, File]:
    """Return the static files of a page by path.

    These are ``index.html`` (as "/") and ``page.js`` of the folder ``static`` of ``package``, and
    the styles and scripts that all pages share.
    """
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
