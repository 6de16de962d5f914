"""Addresses of agents, clouds and other servers: their parts, and their reach.

Client and server must decide alike whether clear text or plaintext may pass over an address. The
decision depends on its kind: a unix socket, loopback or the open network.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import re
import socket
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from sottovoce.core.errors import ConfigError

DEFAULT_PORT = 8471
LARGEST_ANSWER = 64 << 20
"""The most bytes of an agent's response.

1 MiB of text can be half a million words, each with offsets.
"""

_LONGEST_SOCKET_PATH = 107
_NO_PORT = 1 << 16


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of "HOST", "HOST:PORT" or "[IPv6]:PORT".

    >>> split_address("cloud.example.org")
    ('cloud.example.org', 8471)

    Raises:
        ConfigError: it is none of these.
    """
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    number = int(port) if re.fullmatch(r"[0-9]{1,5}", port) else _NO_PORT
    whole = host and not re.search(r"[\s/@]", host) and host.isprintable()
    if not whole or (":" in host and not is_ip(host)) or number >= _NO_PORT:
        raise ConfigError(
            f"{address!r} is not an address", fix="give HOST or HOST:PORT", subject="address"
        )
    return host, number


class Url(NamedTuple):
    """The parts of an HTTP server's address; the path has no last slash."""

    tls: bool
    host: str
    port: int | None
    path: str


def split_url(url: str, setting: str = "the address") -> Url:
    """The parts of an ``https://`` URL, or of an ``http://`` URL on loopback.

    Args:
        setting: what an error calls it; the URL may hold a password, and is not quoted.

    Raises:
        ConfigError: it is none of these.

    >>> split_url("http://127.0.0.1:8080/v1/")
    Url(tls=False, host='127.0.0.1', port=8080, path='/v1')
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    tidy = not (parts.query or parts.fragment or "@" in parts.netloc) if host else False
    if not tidy or parts.scheme not in ("http", "https") or re.search(r"[^\x21-\x7e]", url):
        raise ConfigError(
            f"{setting} is not the URL of an HTTP server",
            fix='give one such as "https://llm.example.org/v1" or "http://127.0.0.1:8080/v1"',
            subject=setting,
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{setting} would send over the network without TLS",
            fix="use https://, or a server on this machine",
            subject=setting,
        )
    return Url(parts.scheme == "https", host, port, parts.path.rstrip("/"))


def is_ip(host: str) -> bool:
    """Return whether ``host`` is a number, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether packets to `host` stay on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def socket_path(listen: str) -> Path | None:
    """Return the path of a "unix:PATH" address; None for any other.

    Raises:
        ConfigError: the path is too long for a socket.
    """
    if not listen.startswith("unix:"):
        return None
    path = Path(listen.removeprefix("unix:"))
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"the socket path {path} is longer than {_LONGEST_SOCKET_PATH} bytes",
            fix="set agent.listen to a shorter one",
            subject="agent.listen",
        )
    return path


def answers(path: Path) -> bool:
    """Return whether some process listens on the unix socket `path`."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        return True


FEWEST_BITS: Final = 2048
"""The fewest bits of an RSA key (NIST SP 800-131A)."""
_SOON: Final = datetime.timedelta(days=14)
_log = logging.getLogger(__name__)


def check_certificate(pem: bytes, setting: str) -> None:
    """Check that the chain in `pem` may be served; log a warning if it expires soon.

    Args:
        pem: the server's certificate, then the certificates of its authorities.
        setting: the setting that names the file, for the message.

    Raises:
        ConfigError: a certificate has expired, is not valid yet, or has an RSA key of too few bits;
            or there is none.
    """
    # Imported late: without TLS a device does not need it.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    now = datetime.datetime.now(datetime.UTC)
    try:
        chain = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigError(
            "the TLS certificate cannot be read",
            fix=f"set {setting} to a PEM file of certificates",
            subject=setting,
        ) from error
    for one in chain:
        key, ends, begins = one.public_key(), one.not_valid_after_utc, one.not_valid_before_utc
        wrong = ""
        if now > ends:
            wrong = f"expired on {ends:%Y-%m-%d}"
        elif now < begins:
            wrong = f"is not valid before {begins:%Y-%m-%d}"
        elif isinstance(key, RSAPublicKey) and key.key_size < FEWEST_BITS:
            wrong = f"has an RSA key of {key.key_size} bits, which is too weak"
        if wrong:
            raise ConfigError(
                f"the TLS certificate, or one it hangs on, {wrong}",
                fix=f"renew it, with a key of at least {FEWEST_BITS} bits, and check the clock",
                subject=setting,
            )
        if ends - now < _SOON:
            _log.warning("a TLS certificate expires on %s: renew it", f"{ends:%Y-%m-%d}")


def matching_pair(pem: bytes, key: bytes, setting: str, key_setting: str) -> datetime.datetime:
    """Return the end of the first certificate in `pem`, after checking that `key` belongs to it.

    Args:
        pem: the certificate, then its chain.
        key: PEM of the private key, without a passphrase.
        setting: the setting that names the certificate's file, for the message.
        key_setting: the setting that names the key's file.

    Raises:
        ConfigError: one of the two is malformed, or they do not match.
    """
    from cryptography import x509  # late, as above
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        first = x509.load_pem_x509_certificates(pem)[0]
        certified = first.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            "the TLS certificate cannot be read",
            fix=f"set {setting} to a PEM file of certificates",
            subject=setting,
        ) from error
    try:
        ours = load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            "the TLS certificate's key cannot be read",
            fix=f"set {key_setting} to a PEM file of a private key without a passphrase",
            subject=key_setting,
        ) from error
    if ours != certified:
        raise ConfigError(
            "the TLS certificate and its key do not match",
            fix=f"set {setting} and {key_setting} to the two files of one pair",
            subject=setting,
        )
    return first.not_valid_after_utc
