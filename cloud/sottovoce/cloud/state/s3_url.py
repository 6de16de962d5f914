"""Parse an ``s3://`` URL of ``--objects``, together with the environment."""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from sottovoce.core.errors import ConfigError

__all__ = ["S3Place"]

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KNOWN: Final = {"endpoint", "region", "versions"}
_SECRETS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_SENT: Final = (*(name.upper() for name in _SECRETS), "AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables sent in request headers."""
_BUCKET: Final = re.compile(r"[\w.-]+", re.ASCII)
_VISIBLE: Final = re.compile(r"[!-~]*")
"""Permitted characters in a header: the library stops silently at any other."""


@dataclass(frozen=True, slots=True)
class S3Place:
    """The location of objects.

    Attributes:
        bucket: its name.
        prefix: the prefix of all keys; "" for none.
        endpoint: the store's address; "" for Amazon's.
        region: "" for the environment's.
        plaintext: whether its address begins with http.
        versions: whether a bucket that keeps old versions is accepted.
        secrets: credentials from a file, by name; empty if the environment has them.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    plaintext: bool = False
    versions: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, url: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Parse ``s3://bucket/prefix?endpoint=https://...&region=...``.

        Raises:
            ConfigError: the URL is invalid, the address of another machine lacks TLS, or the file
                of credentials cannot be read.
        """
        try:
            parts = urlsplit(url)
            asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError:
            raise _no_bucket() from None  # the original error quotes the URL
        prefix = unquote(parts.path).strip("/")
        if (
            parts.scheme != "s3"
            or not _BUCKET.fullmatch(parts.netloc)
            or not prefix.isprintable()
            or (prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")))
            or parts.fragment
            or not asked.keys() <= _KNOWN
            or asked.get("versions", "kept") != "kept"
            or not _VISIBLE.fullmatch(asked.get("region", ""))
        ):
            raise _no_bucket()
        endpoint = asked.get("endpoint") or next(
            (environment[name] for name in _ENDPOINTS if environment.get(name)), ""
        )
        return cls(
            bucket=parts.netloc,
            prefix=prefix,
            endpoint=endpoint.rstrip("/"),
            region=asked.get("region", ""),
            plaintext=_plaintext(endpoint, environment),
            versions="versions" in asked,
            secrets=_secrets(environment),
        )

    def settings(self) -> dict[str, str]:
        """Return the store's settings beyond the environment, in the library's terms."""
        told = {"aws_endpoint": self.endpoint, "aws_region": self.region, **self.secrets}
        return {name: value for name, value in told.items() if value}

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def _no_bucket() -> ConfigError:
    return ConfigError(
        "--objects is no URL of a bucket",  # not quoted: it may hold a password
        fix="give one like s3://bucket/prefix, with ?endpoint=https://... for a store that "
        "is not Amazon's, and credentials in the environment (AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials",
        subject="objects",
    )


def _plaintext(endpoint: str, environment: Mapping[str, str]) -> bool:
    """Return whether the connection is plaintext; refuse it where keys and weights would be
    exposed.
    """
    if not endpoint:
        return False
    host, parts = _host(endpoint), urlsplit(endpoint)
    if parts.scheme == "https":
        return False
    allowed = environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if allowed or _loopback(host):
        return True
    raise ConfigError(
        "the store of --objects would be asked over plain HTTP",
        fix="give its endpoint with https://, or set AWS_ALLOW_HTTP=true on a network of yours",
        subject="objects",
    )


def _host(endpoint: str) -> str:
    """Return the host of an address.

    It holds no password, because the library's errors show the address.
    """
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname if parts.port != 0 and _VISIBLE.fullmatch(endpoint) else None
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or set(endpoint) & set("@?#"):
        raise ConfigError(
            "the endpoint of --objects is no URL, or holds more than an address",
            fix="give one like https://s3.example.org, or none for Amazon's; credentials belong in "
            "the environment or in ~/.aws/credentials",
            subject="objects",
        ) from None
    return host


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Read credentials from the file of Amazon's tools, which the library ignores."""
    for name in _SENT:
        if not _VISIBLE.fullmatch(environment.get(name, "")):
            raise ConfigError(
                f"{name} holds what cannot be sent",
                fix="set it without spaces, line ends and letters with accents",
                subject="objects",
            )
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    name = environment.get("AWS_SHARED_CREDENTIALS_FILE", "")
    profile = environment.get("AWS_PROFILE", "")
    found = configparser.RawConfigParser()
    try:
        with open(os.path.expanduser(name or "~/.aws/credentials"), encoding="utf-8") as file:
            found.read_file(file)
        secrets = {one: found.get(profile or "default", one, fallback="") for one in _SECRETS}
        broken = not all(map(_VISIBLE.fullmatch, secrets.values()))
    except FileNotFoundError:
        secrets, broken = {}, False
    except (OSError, ValueError, configparser.Error):
        secrets, broken = {}, True
    needed = all(secrets.get(one) for one in _SECRETS[:2])
    if broken or (not needed and (name or profile or any(secrets.values()))):
        raise ConfigError(
            "the file of the store's credentials cannot be read, or lacks the profile",
            fix="mend ~/.aws/credentials, or what AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE name",
            subject="objects",
        ) from None  # an unparsable value may be the secret
    return {one: secret for one, secret in secrets.items() if secret}
