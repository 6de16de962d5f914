"""Limits and settings of the server, in one place and immutable.

Values arrive from the command line; there is no configuration file on the
cloud's side, because a service manager's unit is one already.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.core.errors import ConfigError, InvalidInput
from sottovoce.core.wire import limits

__all__ = ["DEFAULT_LISTEN", "Limits", "Settings", "check_name"]

DEFAULT_LISTEN = "127.0.0.1:8471"


def check_name(name: str, what: str) -> str:
    """``name`` if it is fit for a folder and the wire.

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
class Limits:
    """What one tenant may ask for. Sizes in bytes of UTF-8 unless said.

    ``examples``, ``upload_bytes`` and ``training_seconds`` count for each job; the last one counts
    time in the trainer, not in the queue. ``unfinished_jobs`` may wait or run at once; of those
    that wait, the tenants take turns.
    """

    examples: int = limits.MOST_EXAMPLES
    upload_bytes: int = 256 * 1024 * 1024
    training_seconds: int = 24 * 3600
    text: int = limits.LARGEST_TEXT
    label_characters: int = limits.LONGEST_LABEL
    labels: int = limits.MOST_LABELS
    unfinished_jobs: int = 20
    message: int = limits.LARGEST_MESSAGE


@dataclass(frozen=True, slots=True)
class Settings:
    """How ``sotto-cloud serve`` runs.

    ``bundles`` are bundle folders, the first one the default; ``threads`` are
    CPU threads for predictions, ``training_threads`` those of the worker.
    ``adapter_memory`` is bytes for adapters, ``precision`` of predictions "auto",
    "float32" or "bfloat16", ``metrics`` HOST:PORT for Prometheus ("" for none).
    """

    state: Path
    bundles: tuple[Path, ...]
    listen: str = DEFAULT_LISTEN
    backbone: str = "default"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_plaintext: bool = False
    threads: int = max(1, (os.cpu_count() or 2) // 2)
    training_threads: int = os.cpu_count() or 1
    adapter_memory: int = 1024 << 20
    precision: str = "auto"
    metrics: str = ""
    grace_seconds: float = 10.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Refuses what would be unsafe.

        Raises:
            ConfigError: half a TLS pair, or plaintext on a public address.
        """
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError(
                "TLS needs both a certificate and a key",
                fix="give --tls-cert and --tls-key together",
            )
        if self.tls_cert is None and not self.local and not self.insecure_plaintext:
            raise ConfigError(
                f"refusing to serve in plaintext on {self.listen}",
                fix="give --tls-cert and --tls-key, listen on 127.0.0.1, or, behind a proxy that "
                "ends TLS, say --insecure-plaintext",
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the address."""
        host = self.listen.rpartition(":")[0].strip("[]")
        return self.listen.startswith("unix:") or host in ("127.0.0.1", "::1", "localhost")
