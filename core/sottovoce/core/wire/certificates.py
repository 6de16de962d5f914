"""Checks of a server's certificates: invalid ones are refused before any client sees them."""

from __future__ import annotations

import datetime
import logging
from typing import Final

from sottovoce.core.errors import ConfigError

__all__ = ["check_certificate"]

FEWEST_BITS: Final = 2048
"""The fewest bits of an RSA key (NIST SP 800-131A)."""
_SOON: Final = datetime.timedelta(days=14)
_log = logging.getLogger(__name__)


def check_certificate(pem: bytes, setting: str, now: datetime.datetime | None = None) -> None:
    """Check that the chain in `pem` may be served; log a warning if it expires soon.

    Args:
        pem: the server's certificate, then the certificates of its authorities.
        setting: the setting that names the file, for the message.
        now: replaces the current time.

    Raises:
        ConfigError: a certificate has expired, is not valid yet, or has an RSA key of too few bits;
            or there is none.
    """
    # Imported late: without TLS a device does not need it.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    now = now or datetime.datetime.now(datetime.UTC)
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
