"""Why a cloud that stands at its address does not answer: what a TLS handshake with it says.

Why it is here: gRPC tells of every failure in one way, and an unknown authority, a certificate for
another name, one that has expired and a port without TLS want four different mends.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sottovoce.core.errors import ConfigError, SottovoceError, Unauthenticated, Unavailable

__all__ = ["diagnosis"]

_SECONDS: Final = 5.0
_EXPIRED, _NOT_YET = 10, 9
_OTHER_NAME: Final = (62, 64)
_TOO_WEAK: Final = (66, 67, 68)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_RENEW: Final = "check this device's clock; if it is right, have the provider renew the certificate"
_DATES: Final[Mapping[int, str]] = MappingProxyType(
    {_EXPIRED: "has expired", _NOT_YET: "is not valid yet"}
)
"""OpenSSL's numbers of what is wrong with a certificate (X509_V_ERR_*)."""


def diagnosis(
    host: str, port: int, roots: bytes | None, shown: tuple[Path, Path] | None = None
) -> SottovoceError | None:
    """What is wrong with TLS at an address, or None where it is not that.

    Args:
        host: a name or an address.
        port: of TCP.
        roots: PEM of the authorities to trust; None trusts the system's.
        shown: files of the certificate that this device shows there, and of its key.
    """
    peer = f"the cloud at {host}:{port}"
    try:
        context = ssl.create_default_context(cadata=roots.decode("ascii") if roots else None)
    except (ssl.SSLError, UnicodeDecodeError):
        return ConfigError(
            "cloud.ca_file holds no certificate",
            fix="set it to the PEM file of the authority that your provider names",
            subject="cloud.ca_file",
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
            known = shown is not None
            # The cloud speaks first, once it has taken the certificate (RFC 9113, 3.4).
            return _not_taken(peer) if known and not line.recv(1) else None
    except ssl.SSLCertVerificationError as error:
        return _of_certificate(peer, error.verify_code)
    except ssl.SSLError as error:
        if known:  # told so, where gRPC's servers just hang up
            return _not_taken(peer)
        if error.reason not in _NO_TLS:  # cut off in the middle, for instance
            return None
        return ConfigError(
            f"{peer} does not speak TLS",
            fix="set cloud.address to its port with TLS; without, only this machine may be called",
            subject="cloud.address",
        )
    except ConnectionResetError:
        return _not_taken(peer) if known else None
    except OSError:  # not even a connection
        return None


def _not_taken(peer: str) -> SottovoceError:
    return Unauthenticated(
        f"{peer} does not take this device's certificate, which may have ended",
        fix="try again: the device asks for another first; if it stays so, check its clock, or "
        "have the provider see to the authority",
        subject="certificate",
    )


def _of_certificate(peer: str, code: int) -> SottovoceError:
    if code in _DATES:
        return Unavailable(f"the certificate of {peer} {_DATES[code]}", fix=_RENEW)
    if code in _OTHER_NAME:
        return ConfigError(
            f"the certificate of {peer} is for another name",
            fix="set cloud.address to the name that it is for, or ask the provider",
            subject="cloud.address",
        )
    if code in _TOO_WEAK:
        return Unavailable(
            f"the certificate of {peer} has a key or a digest that is too weak",
            fix="have the provider make one with a larger key",
        )
    return ConfigError(
        f"the certificate of {peer} is signed by an authority that this device does not know",
        fix="set cloud.ca_file to the PEM file of the authority that your provider names",
        subject="cloud.ca_file",
    )
