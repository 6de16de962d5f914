"""What an ``s3://`` URL of ``--objects`` says, and what the environment adds to it."""

from __future__ import annotations

import configparser
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from sottovoce.core.errors import ConfigError

__all__ = ["S3Place"]

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_KNOWN: Final = {"endpoint", "region", "versions"}
_SECRETS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


@dataclass(frozen=True, slots=True)
class S3Place:
    """Where objects lie.

    Attributes:
        bucket: its name.
        prefix: what all keys begin with; "" for nothing.
        endpoint: of the store; "" for Amazon's.
        region: "" for what the environment says.
        plaintext: whether its address begins with http.
        versions: whether a bucket is taken that keeps old versions.
        secrets: credentials that a file has, by name; none where the environment has them.
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
        """What is meant by ``s3://bucket/prefix?endpoint=https://...&region=...``.

        Raises:
            ConfigError: it is no such URL; an address without TLS that is not this machine's; or
                the file of credentials cannot be read.
        """
        parts = urlsplit(url)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        if (
            parts.scheme != "s3"
            or not parts.netloc
            or set(parts.netloc) & set("@:")  # a password is never quoted
            or parts.fragment
            or not asked.keys() <= _KNOWN
            or asked.get("versions", "kept") != "kept"
        ):
            raise ConfigError(
                "--objects is no URL of a bucket",
                fix="give one like s3://bucket/prefix, with ?endpoint=https://... for a store that "
                "is not Amazon's, and credentials in the environment (AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials",
                subject="objects",
            )
        endpoint = asked.get("endpoint") or next(
            (environment[name] for name in _ENDPOINTS if environment.get(name)), ""
        )
        return cls(
            bucket=parts.netloc,
            prefix=unquote(parts.path).strip("/"),
            endpoint=endpoint.rstrip("/"),
            region=asked.get("region", ""),
            plaintext=_plaintext(endpoint, environment),
            versions="versions" in asked,
            secrets=_secrets(environment),
        )

    def settings(self) -> dict[str, str]:
        """What the store is told beyond the environment, in its own words."""
        told = {"aws_endpoint": self.endpoint, "aws_region": self.region, **self.secrets}
        return {name: value for name, value in told.items() if value}

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def _plaintext(endpoint: str, environment: Mapping[str, str]) -> bool:
    """Whether it is, and may be: keys of examples and weights go over it."""
    parts = urlsplit(endpoint)
    if not endpoint or (parts.scheme == "https" and parts.hostname):
        return False
    if parts.scheme == "http" and parts.hostname:
        allowed = environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
        if allowed or _loopback(parts.hostname):
            return True
        raise ConfigError(
            "the store of --objects would be asked over plain HTTP",
            fix="give its endpoint with https://, or set AWS_ALLOW_HTTP=true on a network of yours",
            subject="objects",
        )
    raise ConfigError(
        "the endpoint of --objects is no URL",
        fix="give one like https://s3.example.org, or none for Amazon's",
        subject="objects",
    )


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the file that Amazon's tools read, which the library does not."""
    if environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    name = environment.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    profile = environment.get("AWS_PROFILE") or "default"
    found = configparser.RawConfigParser()
    try:
        found.read(Path(name).expanduser(), encoding="utf-8")
        section = found[profile] if found.has_section(profile) else {}
        secrets = {name: section[name] for name in _SECRETS if name in section}
    except (OSError, UnicodeDecodeError, configparser.Error):
        secrets = {}
        broken = True
    else:
        broken = bool(environment.get("AWS_PROFILE")) and not secrets
    if broken:
        raise ConfigError(
            "the file of the store's credentials cannot be read, or lacks the profile",
            fix="mend ~/.aws/credentials, or what AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE name",
            subject="objects",
        ) from None  # what cannot be parsed may be the secret
    return secrets
