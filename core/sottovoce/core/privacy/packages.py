"""Tells public packages, namespaces and pinned versions from links and addresses of somebody.

"app.kubernetes.io/name" and "github.com/gin-gonic/gin" are the same for everyone. So they pass,
unless a word in them is a name, or a user or a query stands in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Final

from sottovoce.core.privacy.signs import key_parts, listed
from sottovoce.core.text.vocabulary import Mark, Vocabulary, listed_names

_NAMESPACES: Final = listed("namespaces")
_PARTS: Final = listed("package_parts")
_LABELS: Final = listed("namespace_labels")
_HOSTS: Final = listed("package_hosts")
_OWNERS: Final = listed("public_owners")
_ROOTS: Final = listed("package_roots")
_LINK = re.compile(
    r"(?:(?:https?|oci|docker)://)?(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::443)?"
    r"(?P<path>/[\w./@:+^-]*#?)?",
    re.IGNORECASE,
)
_REPOSITORY = re.compile(
    r"(?:(?:https?://)?(?:www\.)?(?:github|gitlab)\.com/|git@(?:github|gitlab)\.com:|ghcr\.io/)"
    r"(?P<owner>[\w-]+)(?P<path>/[\w./@:+^-]*)?",
    re.IGNORECASE,
)
_OWNED = re.compile(
    r"/(?:~|(?:accounts?|authors?|maintainers?|members?|owners?|people|person|profiles?|staff|u"
    r"|users?)/)|^/(?=[^/]+/[^/]+\.v\d)",
    re.IGNORECASE,
)
"""The page of a user, and a user's package as in "gopkg.in/hvogel/app.v1"."""
_SCOPED = re.compile(r"/(?:(?:gh|t)/|@)([^/@]*)", re.IGNORECASE)
"""The owner of a package: "/@rose/app", "/gh/rose/app"."""
_SCOPES: Final = _OWNERS | {"testing-library", "types", "vue"}
_COORDINATE = re.compile(r"[a-z][\w-]*(?:\.[\w*$-]+)+(?::[\w.-]+){0,3}", re.IGNORECASE)
_PIN = re.compile(
    r"(?:(?P<name>[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*)(?:\[[\w,-]+\])?(?:[=~!]=|===))?"
    r"(?:[12]?\d|30)(?:\.\d{1,3}){1,3}"
)
"""A version, also of four parts, after the name of a package."""
_COMPARED = re.compile(r"[\w.-]+[=!]=(\d{1,3}(?:\.\d{1,3}){3}\S*)")
_ADDRESSED: Final = listed("contact_keys") | {
    *("addr", "address", "client", "dest", "destination", "dns", "dst", "from", "gateway", "gw"),
    *("host", "hostname", "ipv4", "machine", "ns", "peer", "remote", "router", "server", "source"),
    *("src", "target", "to", "visitor"),
}
"""Keys of addresses of machines: "ip.src==203.0.113.7"."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONG: Final = re.compile(r"\d{5,}|(?=\w*\d)(?=\w*[A-Za-z])\w{20,}")
_SHORT: Final = 3
_ADDRESS_DOTS: Final = 3
_LONGEST_ROOT: Final = 3
_LONGEST: Final = 300


def is_public_package(text: str, marks: Callable[[str], int] | None = None) -> bool:
    """Return whether a text is a public namespace, or a package of a public owner.

    Args:
        text: the text.
        marks: returns the marks of a word, by default in the vocabulary; each part needs some.

    >>> is_public_package("app.kubernetes.io/name"), is_public_package("github.com/hvogel/api")
    (True, False)
    """
    if len(text) > _LONGEST:
        return False
    marks = marks or Vocabulary.shipped().marks
    if repository := _REPOSITORY.fullmatch(text):
        owner = repository["owner"].lower()
        return owner in _OWNERS and _is_plain(repository["path"] or "", marks, {*owner.split("-")})
    if link := _LINK.fullmatch(text):
        host, path = link["host"].lower(), link["path"] or ""
        if is_package_host(host):  # links with a path are contacts, and an answer brings them back
            key = "://" not in text and _is_namespace(host)
            return not path.strip("/") or (key and _is_plain(path, marks))
    if _COORDINATE.fullmatch(text):
        labels = text.split(":")[0].lower().split(".")
        for stop in range(1, _LONGEST_ROOT + 1):
            root = ".".join(labels[:stop])
            if root in _ROOTS and _is_plain(text[len(root) :], marks, {*labels[:stop]}):
                return True
    return False


def pinned(text: str, *, listed: bool = False) -> str | None:
    """Return the package that a text pins to a version, "" for a version alone, or None.

    Args:
        text: the text.
        listed: whether it stands among other packages. Elsewhere a version of four parts may be
            an address, so the package must have a name of two words.

    >>> pinned("opencv-python==4.8.1.78"), pinned("4.8.1.78"), pinned("rose==4.8.1.78")
    ('opencv-python', '', None)
    """
    pin = _PIN.fullmatch(text)
    if not pin or not key_parts(pin["name"] or "").isdisjoint(_ADDRESSED):
        return None
    name = pin["name"] or ""
    if name and text.count(".", pin.end("name")) == _ADDRESS_DOTS and not listed:
        return name if {*"-_"} & {*name} else None
    return pin["name"] or ""


def compared(text: str) -> str:
    """Return the address that a text compares with a name: "ip.src==203.0.113.7"; "" for none."""
    match = _COMPARED.fullmatch(text)
    return match[1] if match and pinned(text) is None else ""


def is_owned(path: str) -> bool:
    """Return whether a path leads to a user, also on a public host: "/people/ann"."""
    owners = (match[1].lower() for match in _SCOPED.finditer(path))
    return _OWNED.search(path) is not None or not _SCOPES.issuperset(owners)


def is_package_link(text: str) -> bool:
    """Return whether a link leads to a host of packages; its numbers are versions."""
    link = _LINK.fullmatch(text)
    return link is not None and "://" in text and is_package_host(link["host"].lower())


def is_package_host(host: str) -> bool:
    """Return whether a host serves packages, or names formats, for everyone."""
    return serves_packages(host) or _is_namespace(host)


def serves_packages(host: str) -> bool:
    """Return whether everyone loads packages from a host: "pypi.org"."""
    return host in _HOSTS


def _is_namespace(host: str) -> bool:
    """Return whether a host is a namespace, or a known part of one: "app.kubernetes.io"."""
    labels = host.split(".")
    for at in range(len(labels) - 1):
        if ".".join(labels[at:]) in _NAMESPACES:
            return _LABELS.issuperset(labels[:at])
    return False


def _is_plain(path: str, marks: Callable[[str], int], known: Set[str] = frozenset()) -> bool:
    """Return whether no word of a path is a name, and none is a key or a long number.

    Args:
        path: the path.
        marks: returns the marks of a word.
        known: names that the root holds too: "com.fasterxml.jackson".
    """
    if is_owned(path):
        return False
    for word in _WORD.findall(path):
        mark = marks(word.lower())
        if len(word) <= _SHORT or word.lower() in known | _PARTS or mark & Mark.WORD:
            continue
        if mark & Mark.NAME or not mark or listed_names(word):
            return False
    return not _LONG.search(path)
