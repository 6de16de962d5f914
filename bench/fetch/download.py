"""Download one file: the whole and expected file, or none.

Half a data set, or another edition, would give measurements that look like any other.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sottovoce.core.errors import DataLoss, InvalidInput, SottovoceError, Unavailable

__all__ = ["download"]

_PIECE: Final = 1 << 16
_SECONDS: Final = 60.0
"""Timeout without a byte, in seconds."""
_LOOPBACK: Final = "127.0.0.1"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, unless they leave TLS."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, to: str
    ) -> Any:
        _check(to)
        return super().redirect_request(req, fp, code, msg, headers, to)


def download(
    url: str,
    file: Path,
    *,
    largest: int,
    sha256: str = "",
    step: Callable[[int], None] = lambda _: None,
) -> str:
    """Fetch ``url`` into ``file``, which appears only when it is whole and checked.

    Args:
        url: https; http only on loopback.
        file: the path to write.
        largest: size limit in bytes.
        sha256: the expected digest; empty if unknown.
        step: called with the number of bytes of each piece.

    Returns:
        The file's SHA-256.

    Raises:
        Unavailable: the server does not answer, answers with an error, or the connection broke.
        DataLoss: the file is too large, or is another file.
    """
    _check(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".fetching-", dir=file.parent)
    try:
        with os.fdopen(number, "wb") as part:
            found = _copy(url, part, largest, step)
        if sha256 and found != sha256:
            raise DataLoss(
                f"{url} has changed: SHA-256 {found}, not {sha256}",
                fix="look what its makers changed; figures of another edition are others",
                subject="sha256",
            )
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)
    return found


def _copy(url: str, part: Any, largest: int, step: Callable[[int], None]) -> str:
    opener = urllib.request.build_opener(_Redirects)
    digest, held = hashlib.sha256(), 0
    try:
        with opener.open(url, timeout=_SECONDS) as answer:
            said = answer.headers.get("Content-Length")
            while piece := answer.read(_PIECE):
                held += len(piece)
                if held > largest:
                    raise DataLoss(
                        f"{url} is larger than {largest:,} bytes",
                        fix="look whether it is still what its makers publish",
                        subject="size",
                    )
                digest.update(piece)
                part.write(piece)
                step(len(piece))
    except SottovoceError:
        raise
    except (OSError, http.client.HTTPException) as error:  # URLError and HTTPError are OSErrors
        raise Unavailable(
            f"{url}: {error}", fix="try again; what is whole is kept", subject="url"
        ) from error
    if said is not None and held != int(said):
        raise Unavailable(f"{url} broke off", fix="try again; what is whole is kept", subject="url")
    return digest.hexdigest()


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", _LOOPBACK):
        raise InvalidInput(f"{url} is not https", fix="name an https address", subject="url")
