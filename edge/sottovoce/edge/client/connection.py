"""A connection to the cloud: its services, its certificate, and its open calls.

A certificate is renewed while calls are open. Their connection may be closed only after the last
call has ended.

Programs like step-ca or cert-manager renew the certificate's files. The files are read again when
they change, so a renewal needs no restart.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import grpc

from sottovoce.core.bundle.signature import read_key, show_key
from sottovoce.core.errors import BundleMismatch, ConfigError, DataLoss, InvalidInput
from sottovoce.core.platform.files import atomic, open_to_others, read_secret
from sottovoce.core.rpc.address import is_loopback, matching_pair, split_address
from sottovoce.core.rpc.channels import NO_RETRIES, ReadingChannel
from sottovoce.core.rpc.limits import LARGEST_MESSAGE
from sottovoce.edge.config import BundleConfig, CloudConfig
from sottovoce.v1 import (
    bundles_pb2_grpc,
    enrollment_pb2_grpc,
    generation_pb2_grpc,
    inference_pb2_grpc,
    training_pb2_grpc,
)

_log = logging.getLogger(__name__)
_LARGEST: Final = 1 << 20
"""Most bytes of a certificate with its chain."""
_Identity = tuple[tuple[int, int, int], ...]


class SecretFile:
    """A file that is read for each call, so that a renewed secret needs no restart.

    Args:
        what: "token" or "key", for people.
    """

    def __init__(self, path: Path, setting: str, what: str) -> None:
        self._path, self._setting, self._what = path, setting, what
        self._warned = False

    def read(self) -> str:
        """Return the secret; log a warning once if others can read it."""
        try:
            secret = self._path.read_bytes().decode("ascii", "replace").strip()
        except OSError as error:
            raise ConfigError(
                f"cannot read {self._path}: {error.strerror}",
                fix=f"set {self._setting} to a file you can read",
                subject=self._setting,
            ) from error
        if not secret or not secret.isascii() or not secret.isprintable():
            raise ConfigError(
                f"{self._path} holds no {self._what}",
                fix=f"write the {self._what} you were given into it",
                subject=self._setting,
            )
        if open_to_others(self._path) and not self._warned:
            self._warned = True
            _log.warning("other users can read the %s %s: chmod 600 it", self._what, self._path)
        return secret


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate with its chain, and its key, both as PEM; ``ends`` is the certificate's end."""

    certificate: bytes
    key: bytes = field(repr=False)
    ends: datetime


class ClientCertificate:
    """The pair in two files.

    Args:
        certificate: PEM of the certificate, then of its chain.
        key: PEM of the private key.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.files = (certificate, key)
        self._seen: _Identity = ()
        self._shown: Shown | None = None

    def read(self) -> Shown:
        """Return the pair; read the files only if they changed.

        A renewal may replace the two files one after the other. While they do not match, the
        earlier pair is returned.

        Raises:
            ConfigError: a file cannot be read, the two do not match, or others can read the key;
                and there is no earlier pair.
        """
        try:
            found = tuple(_identity(file) for file in self.files)
        except OSError as error:
            return self._earlier(_unreadable(error))
        if self._shown is not None and found == self._seen:
            return self._shown
        try:
            shown = self._read()
        except ConfigError as error:
            return self._earlier(error)
        self._seen, self._shown = found, shown
        return shown

    def _read(self) -> Shown:
        try:
            certificate = _bytes(self.files[0])
            key = read_secret(self.files[1], subject="cloud.certificate_key")
        except OSError as error:
            raise _unreadable(error) from error
        ends = matching_pair(certificate, key, "cloud.certificate", "cloud.certificate_key")
        return Shown(certificate, key, ends)

    def _earlier(self, error: ConfigError) -> Shown:
        if self._shown is None:
            raise error
        _log.warning("the earlier certificate stays in use: %s", error.problem)
        return self._shown


def _identity(file: Path) -> tuple[int, int, int]:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_LARGEST)


def _unreadable(error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot read {error.filename}: {error.strerror}",
        fix="set cloud.certificate and cloud.certificate_key to files that the agent's user can "
        "read",
        subject="cloud.certificate",
    )


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service, as gRPC calls it, and its connection."""

    over: Connection
    path: str
    call: Any


class Connection:
    """The services over one channel; their methods are `Method`.

    Args:
        channel: belongs to this connection alone.
    """

    def __init__(self, channel: grpc.Channel, shown: Shown | None = None) -> None:
        self.shown = shown
        self.closed = False
        self._channel = channel
        self._lock = threading.Lock()
        self._calls = 0
        made = _Methods(self, channel)
        self.bundles = bundles_pb2_grpc.BundlesServiceStub(made)  # type: ignore[no-untyped-call]
        self.enrollment = enrollment_pb2_grpc.EnrollmentServiceStub(made)  # type: ignore[no-untyped-call]
        self.training = training_pb2_grpc.TrainingServiceStub(made)  # type: ignore[no-untyped-call]
        self.inference = inference_pb2_grpc.InferenceServiceStub(made)  # type: ignore[no-untyped-call]
        self.generation = generation_pb2_grpc.GenerationServiceStub(made)  # type: ignore[no-untyped-call]

    @property
    def in_use(self) -> bool:
        return self._calls > 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count a call as open during the block."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def close(self) -> None:
        """End all calls in progress, and allow no more; gRPC then raises ValueError."""
        self.closed = True
        self._channel.close()


class _Methods:
    """A stand-in for a channel in gRPC's stubs."""

    def __init__(self, over: Connection, channel: grpc.Channel) -> None:
        self._over, self._channel = over, ReadingChannel(channel)

    def __getattr__(self, shape: str) -> Callable[..., Method]:
        make = getattr(self._channel, shape)

        def made(path: str, *given: Any, **options: Any) -> Method:
            return Method(self._over, path, make(path, *given, **options))

        return made


_LONGEST_WAIT: Final = 5_000
"""Longest time between two attempts to connect, in milliseconds.

gRPC's own bound is two minutes. With it, a device still reported "does not answer" after a long
outage, although the cloud was back.
"""


def connect(config: CloudConfig, shown: Shown | None = None) -> grpc.Channel:
    """Return a channel to the cloud, which connects when it is first used.

    Raises:
        ConfigError: there is no address, or the authorities cannot be read.
    """
    host, port = split_address(config.address)
    options = [
        NO_RETRIES,
        ("grpc.max_receive_message_length", LARGEST_MESSAGE),
        ("grpc.max_send_message_length", LARGEST_MESSAGE),
        ("grpc.max_reconnect_backoff_ms", _LONGEST_WAIT),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.enable_http_proxy", 0 if is_loopback(host) else 1),
    ]
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not needs_tls(config):
        return grpc.insecure_channel(target, options)
    pair = (shown.key, shown.certificate) if shown else (None, None)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots(config), *pair), options)


def needs_tls(config: CloudConfig) -> bool:
    """Return whether plaintext to ``config.address`` is forbidden."""
    if config.ca_file is not None or config.certificate is not None:
        return True
    return not is_loopback(split_address(config.address)[0])


def roots(config: CloudConfig) -> bytes | None:
    """Return the trusted authorities as PEM; None for the system's authorities."""
    if config.ca_file is None:
        return None
    try:
        return config.ca_file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read {config.ca_file}: {error.strerror}",
            fix="set cloud.ca_file to a file you can read",
            subject="cloud.ca_file",
        ) from error


KNOWN_CLOUDS = "known_clouds"
"""The file's name, in the folder of bundles."""


class KnownClouds:
    """The file ``known_clouds`` among the bundles.

    Each line has an address and a public key.
    """

    def __init__(self, config: BundleConfig) -> None:
        self._file = config.path / KNOWN_CLOUDS
        self._configured = read_key(config.key) if config.key else None

    def check(self, address: str, key: bytes) -> None:
        """Check that the cloud at `address` may sign with `key`.

        It may if it did before, or if the device has not met it yet.

        Raises:
            BundleMismatch: the owner configured another key, or another is stored.
            DataLoss: the file of keys is damaged.
        """
        if self._configured is not None:
            self._check_configured(key)
            return
        noted = self._noted().get(_place(address))
        if noted is not None and noted != key:
            raise BundleMismatch(
                f"{address} signs bundles with {show_key(key)}, and not as before with "
                f"{show_key(noted)}",
                fix="somebody may stand in for it; if the provider confirms the new key, "
                f"run `sotto pull --key {show_key(key)}`",
                subject="bundle.key",
            )

    def check_any(self, key: bytes) -> None:
        """Check that `key` is the configured key, or else any stored cloud's key.

        Raises:
            BundleMismatch: it is not. DataLoss: the file of keys is damaged.
        """
        if self._configured is not None:
            self._check_configured(key)
        elif key not in self._noted().values():
            raise BundleMismatch(
                f"the bundle is signed with {show_key(key)}, a key that was never noted here",
                fix=f"run `sotto pull`, which notes keys in {self._file}",
                subject="bundle.key",
            )

    def note(self, address: str, key: bytes) -> None:
        """Store `key` as the signing key of the cloud at `address`."""
        noted = self._noted()
        if noted.get(_place(address)) == key:
            return
        lines = (noted | {_place(address): key}).items()
        with atomic(self._file) as file:
            file.write("".join(f"{place} {show_key(each)}\n" for place, each in lines).encode())

    def _check_configured(self, key: bytes) -> None:
        if key != self._configured:
            raise BundleMismatch(
                f"the bundle is signed with {show_key(key)}, which is not the configured key",
                fix="pull from the right cloud, or change bundle.key in the configuration",
                subject="bundle.key",
            )

    def _noted(self) -> dict[str, bytes]:
        try:
            lines = self._file.read_text(encoding="ascii").splitlines()
            pairs = (line.split() for line in lines)
            return {place: read_key(key) for place, key in pairs}
        except FileNotFoundError:
            return {}
        except (ValueError, InvalidInput) as error:
            raise DataLoss(
                f"{self._file} is damaged",
                fix="bring it back, or remove it and run `sotto pull`, which trusts anew",
                subject=str(self._file),
            ) from error


def _place(address: str) -> str:
    host, port = split_address(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
