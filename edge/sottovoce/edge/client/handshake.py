"""Find the protocol and the certificate of a server that does not answer calls.

gRPC and `http.client` report every failure in the same way. But each of these failures needs
another fix: an unknown authority, a certificate for another name, an expired certificate, a port
without TLS, and a web server.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sottovoce.core.errors import ConfigError, SottovoceError, Unavailable

_SECONDS: Final = 5.0
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""First bytes of an HTTP/2 client (RFC 9113, 3.4): preface and empty settings."""
_SETTINGS: Final = 4
_FRAME: Final = 9
"""Bytes of a frame's head; the fourth is its type."""
_ALERT: Final = 0x15
"""The first byte of TLS when a server refuses the client's bytes."""
_EXPIRED, _NOT_YET = 10, 9
_OTHER_NAME: Final = (62, 64)
_TOO_WEAK: Final = (66, 67, 68)
_DATES: Final[Mapping[int, str]] = MappingProxyType(
    {_EXPIRED: "has expired", _NOT_YET: "is not valid yet"}
)
"""OpenSSL's numbers for certificate errors (X509_V_ERR_*)."""
_TOO_OLD: Final = ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION")
_NO_HTTP2: Final = "TLSV1_ALERT_NO_APPLICATION_PROTOCOL"


class Protocol(StrEnum):
    """A server's protocol, as errors name it."""

    HTTP2 = "HTTP/2 without TLS"
    HTTP1 = "HTTP/1 without TLS, as a web server does"
    SSH = "SSH"
    TLS = "TLS"
    OTHER = "neither TLS nor HTTP"


@dataclass(frozen=True, slots=True)
class Server:
    """A server, by the names that an error needs.

    Attributes:
        peer: the server and its address.
        address: the setting that holds the address.
        authority: the setting that holds the authority's file.
        option: the commands' option for that file, in brackets; empty if there is none.
    """

    peer: str
    address: str
    authority: str
    option: str = ""

    @property
    def trusting(self) -> str:
        """The fix for an authority that the device does not know."""
        return (
            f"set {self.authority}{self.option} to the PEM file of the authority that your "
            "provider names"
        )


def _cloud(host: str, port: int) -> Server:
    option = " (--ca-file with `sotto pull` and `sotto enroll`)"
    return Server(f"the cloud at {host}:{port}", "cloud.address", "cloud.ca_file", option)


def diagnosis(
    host: str, port: int, roots: bytes | None, shown: tuple[Path, Path] | None = None
) -> SottovoceError | None:
    """Return why a cloud does not answer over TLS; None if TLS and HTTP/2 work.

    Args:
        roots: PEM of the trusted authorities; None trusts the system's.
        shown: the files of the certificate that this device shows, and of its key.
    """
    cloud = _cloud(host, port)
    try:
        context = ssl.create_default_context(cadata=roots.decode("ascii") if roots else None)
    except (ssl.SSLError, UnicodeDecodeError):
        return ConfigError(
            "cloud.ca_file holds no certificate", fix=cloud.trusting, subject=cloud.authority
        )
    context.set_alpn_protocols(["h2"])
    known = False
    try:
        if shown is not None:
            context.load_cert_chain(*shown)
        with (
            socket.create_connection((host, port), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host) as line,
        ):
            if line.selected_alpn_protocol() != "h2":
                return _another(cloud, "HTTPS without HTTP/2, as a web server does")
            known = True
            # The cloud speaks first, once it has taken the certificate (RFC 9113, 3.4).
            return None if line.recv(1) else _not_taken(cloud.peer, shown)
    except ssl.SSLCertVerificationError as error:
        return certificate_problem(cloud, error)
    except ssl.SSLError as error:
        if known:  # an alert; gRPC's servers only hang up
            return _not_taken(cloud.peer, shown)
        if error.reason == _NO_HTTP2:
            return _another(cloud, "TLS, but not HTTP/2")
        if error.reason in _TOO_OLD:
            return Unavailable(
                f"{cloud.peer} speaks no version of TLS from 1.2 on",
                fix="have the provider allow TLS 1.2 or 1.3",
            )
        return _without_tls(cloud, host, port)
    except ConnectionResetError:
        return _not_taken(cloud.peer, shown) if known else _without_tls(cloud, host, port)
    except OSError:  # not even a connection
        return None


def in_plaintext(host: str, port: int) -> SottovoceError | None:
    """Return why a cloud does not answer in plaintext; None if it speaks HTTP/2."""
    cloud, found = _cloud(host, port), spoken(host, port)
    if found == Protocol.TLS:
        return ConfigError(
            f"{cloud.peer} speaks TLS, and its certificate cannot be checked: cloud.ca_file is not "
            "set",
            fix=cloud.trusting,
            subject=cloud.authority,
        )
    if found in (None, Protocol.HTTP2):
        return None
    return _another(cloud, found)


def spoken(host: str, port: int) -> Protocol | None:
    """Return the protocol of the server at an address; None if it sends nothing."""
    said = _said(host, port)
    if not said:
        return Protocol.TLS if _speaks_tls(host, port) else None
    if said[0] == _ALERT:
        return Protocol.TLS
    if len(said) >= _FRAME and said[3] == _SETTINGS:
        return Protocol.HTTP2
    if said.startswith(b"SSH-"):
        return Protocol.SSH
    if said.startswith((b"HTTP/", b"<")):  # "<" comes from servers of HTTP/0.9 to 1.1
        return Protocol.HTTP1
    return Protocol.OTHER


def certificate_problem(server: Server, error: ssl.SSLCertVerificationError) -> SottovoceError:
    """Return the error for a server's certificate that failed verification."""
    code, peer = error.verify_code, server.peer
    if code in _DATES:
        return Unavailable(
            f"the certificate of {peer} {_DATES[code]}",
            fix="check this device's clock; if it is right, have the provider renew the "
            "certificate",
        )
    if code in _OTHER_NAME:
        return ConfigError(
            f"the certificate of {peer} is for another name",
            fix=f"set {server.address} to the name that it is for, or ask the provider",
            subject=server.address,
        )
    if code in _TOO_WEAK:
        return Unavailable(
            f"the certificate of {peer} has a key or a digest that is too weak",
            fix="have the provider make one with a larger key",
        )
    return ConfigError(
        f"the certificate of {peer} is signed by an authority that this device does not know",
        fix=server.trusting,
        subject=server.authority,
    )


def _said(host: str, port: int) -> bytes:
    """Return a server's first bytes to an HTTP/2 client; empty if it hangs up."""
    said, end = b"", time.monotonic() + _SECONDS
    try:
        with socket.create_connection((host, port), _SECONDS) as line:
            line.sendall(_PREFACE)
            while len(said) < _FRAME and (more := line.recv(_FRAME)):
                said += more
                line.settimeout(max(0.001, end - time.monotonic()))
    except OSError:
        pass
    return said


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether a TLS handshake gets an answer.

    No data is sent, so the server need not be trusted.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        with (
            socket.create_connection((host, port), _SECONDS) as line,
            context.wrap_socket(line, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _without_tls(cloud: Server, host: str, port: int) -> SottovoceError | None:
    """Return the error for a plaintext server where TLS is wanted, or None."""
    found = spoken(host, port)
    if found in (None, Protocol.TLS):
        return None
    if found != Protocol.HTTP2:
        return _another(cloud, found)
    return ConfigError(
        f"{cloud.peer} does not speak TLS: it answers in plaintext",
        fix="set cloud.address to its port with TLS; without, only this machine may be called, "
        "and without cloud.ca_file",
        subject=cloud.address,
    )


def _another(cloud: Server, found: str) -> ConfigError:
    return ConfigError(
        f"{cloud.peer} is no cloud of Sottovoce: it speaks {found}",
        fix=f"set {cloud.address} to the host and port that your provider names",
        subject=cloud.address,
    )


def _not_taken(peer: str, shown: tuple[Path, Path] | None) -> Unavailable:
    if shown is None:
        return Unavailable(
            f"{peer} closes the connection: it wants a certificate of this device, or is starting",
            fix="set cloud.certificate and cloud.certificate_key to the pair that the provider's "
            "authority gave this device; without such an authority, try again soon",
            subject="cloud.certificate",
        )
    return Unavailable(
        f"{peer} does not take this device's certificate",
        fix="check that the certificate has not ended (`sotto doctor`), that the provider's "
        "authority signed it, and this device's clock",
        subject="cloud.certificate",
    )
