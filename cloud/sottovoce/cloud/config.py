"""Limits and settings of the server, in one place and immutable.

Values arrive from the command line, the environment or a file; see
`sottovoce.cloud.cli`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from sottovoce.core.errors import ConfigError, InvalidInput
from sottovoce.core.rpc import limits
from sottovoce.core.rpc.address import split_address

DEFAULT_LISTEN = "127.0.0.1:8471"
STORE_VARIABLE = "SOTTO_CLOUD_STORE"
CONFIG_VARIABLE = "SOTTO_CLOUD_CONFIG"
EVERY_TENANT = "ALL"
"""Stands for all tenants; a tenant's name has small letters, so it cannot clash."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_name(name: str, what: str) -> str:
    """Return ``name`` if it is valid as a folder name and on the wire.

    Raises:
        InvalidInput: anything but lower-case letters, digits, '-' and '_'.
    """
    if not limits.NAME.fullmatch(name):
        raise InvalidInput(
            f"the {what} name is not valid",
            fix="use 1 to 64 of a-z, 0-9, '-' and '_', starting with a letter or digit",
            subject=what,
        )
    return name


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits for one tenant. Sizes in bytes of UTF-8 unless noted.

    ``examples``, ``upload_bytes`` and ``training_seconds`` count for each job. ``training_seconds``
    counts time in the trainer, not in the queue. ``unfinished_jobs`` is the number of jobs that may
    wait or run at once, and ``held_bytes`` limits their examples together. Tenants take turns among
    waiting jobs. ``past_jobs`` is the number of ended jobs that are remembered, without those whose
    adapter still exists.
    """

    examples: int = limits.MOST_EXAMPLES
    upload_bytes: int = 256 * 1024 * 1024
    training_seconds: int = 24 * 3600
    text: int = limits.LARGEST_TEXT
    label_characters: int = limits.LONGEST_LABEL
    labels: int = limits.MOST_LABELS
    unfinished_jobs: int = 20
    held_bytes: int = 1024 * 1024 * 1024
    past_jobs: int = 1000
    message: int = limits.LARGEST_MESSAGE


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """A server with OpenAI's protocol, behind the cloud; see the options ``--upstream...``.

    ``adapters`` maps tenants' adapters to the server's model names, each TENANT/ADAPTER=MODEL.
    """

    url: str
    model: str
    key_file: Path | None = None
    adapters: tuple[str, ...] = ()
    plaintext: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, or would be unsafe.

        Raises:
            ConfigError: no URL, plaintext to another machine, no model, or invalid adapters.
        """
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port  # reading the port validates it
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            raise ConfigError(
                f"--upstream {self.url} is no URL", fix="give one like http://127.0.0.1:8000/v1"
            )
        if parts.scheme == "http" and host not in _LOOPBACK and not self.plaintext:
            raise ConfigError(
                f"refusing to send texts in plaintext to {host}",
                fix="give an https:// URL, or, on a network that is yours alone, say "
                "--upstream-plaintext",
            )
        if not self.model:
            raise ConfigError("--upstream needs a model", fix="name it with --upstream-model")
        self.by_tenant()

    def by_tenant(self) -> dict[tuple[str, str], str]:
        """Return names of models by tenant and adapter."""
        found: dict[tuple[str, str], str] = {}
        for given in self.adapters:
            whose, _, model = given.partition("=")
            tenant, _, adapter = whose.partition("/")
            if not model or not all(map(limits.NAME.fullmatch, (tenant, adapter))):
                raise ConfigError(
                    f"--upstream-adapter {given} names no adapter", fix="write TENANT/ADAPTER=MODEL"
                )
            found[tenant, adapter] = model
        return found

    def key(self) -> str:
        """Return the contents of ``key_file``; empty without a file.

        Raises:
            ConfigError: it cannot be read, or is empty.
        """
        if self.key_file is None:
            return ""
        try:
            found = self.key_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            found = ""
        if not found or not found.isprintable():
            raise ConfigError(
                f"no key in {self.key_file}", fix="put it there, on one line, readable for you"
            )
        return found


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a server, replica or front; most are options of ``sotto-cloud serve``.

    Memory is in bytes. "" stands for none. ``store`` may hold a password. ``trainer`` is False
    where other processes train. ``jobs`` is False on a replica, where other processes take uploads
    and watches.
    """

    state: Path
    bundles: tuple[Path, ...]
    listen: str = DEFAULT_LISTEN
    backbone: str = "default"
    decoder: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_plaintext: bool = False
    threads: int = max(1, (os.cpu_count() or 2) // 2)
    training_threads: int = os.cpu_count() or 1
    adapter_memory: int = 1024 << 20
    precision: str = "auto"
    metrics: str = ""
    trainer_metrics: str = ""
    trace: str = ""
    log_format: str = "text"
    generation_memory: int = 2048 << 20
    upstream: UpstreamSettings | None = None
    hand_out_adapters: tuple[str, ...] = ()
    grace_seconds: float = 10.0
    limits: ServerLimits = field(default_factory=ServerLimits)
    store: str = field(default="", repr=False)
    objects: str = ""
    key_file: Path | None = None
    trainer: bool = True
    jobs: bool = True
    client_ca: Path | None = None

    def __post_init__(self) -> None:
        """Refuse unsafe settings.

        Raises:
            ConfigError: they contradict one another, or would serve plaintext on a public address.
        """
        if not self.listen.startswith("unix:"):
            split_address(self.listen)  # gRPC would take a port above 65535 modulo 65536
        for name in self.hand_out_adapters:
            if name != EVERY_TENANT and not limits.NAME.fullmatch(name):
                raise ConfigError(
                    f"--hand-out-adapters {name} names no tenant",
                    fix=f"give a tenant's name, or {EVERY_TENANT}",
                )
        if self.decoder and self.upstream is not None:
            raise ConfigError(
                "both --decoder and --upstream would write", fix="give one of the two"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError(
                "TLS needs both a certificate and a key",
                fix="give --tls-cert and --tls-key together",
            )
        if self.client_ca is not None and self.tls_cert is None:
            raise ConfigError(
                "clients cannot show a certificate without TLS",
                fix="give --tls-cert and --tls-key with --client-ca",
            )
        if self.tls_cert is None and not self.local and not self.insecure_plaintext:
            raise ConfigError(
                f"refusing to serve in plaintext on {self.listen}",
                fix="give --tls-cert and --tls-key, listen on 127.0.0.1, or, behind a proxy that "
                "ends TLS, say --insecure-plaintext",
            )

    @property
    def local(self) -> bool:
        """Return whether only this machine can reach the address."""
        host = self.listen.rpartition(":")[0].strip("[]")
        return self.listen.startswith("unix:") or host in _LOOPBACK
