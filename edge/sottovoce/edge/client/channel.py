"""Where a connection to the cloud is made: its address and TLS.

This module decides for everything that is sent whether it may leave in plaintext, and which
authorities are trusted. Connections use TLS, except to loopback without a configured authority. A
connection that shows a certificate always uses TLS.
"""

from __future__ import annotations

from typing import Final

import grpc

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import is_loopback, split_address
from sottovoce.core.rpc.channels import NO_RETRIES
from sottovoce.core.rpc.limits import LARGEST_MESSAGE
from sottovoce.edge.client.device_certificate import Held
from sottovoce.edge.config import CloudConfig

__all__ = ["connect", "needs_tls", "roots"]

_LONGEST_WAIT: Final = 5_000
"""Longest time between two attempts to connect, in milliseconds.

gRPC's own bound is two minutes. With it, a device still reported "does not answer" after a long
outage, although the cloud was back.
"""


def connect(config: CloudConfig, shown: Held | None = None) -> grpc.Channel:
    """Return a channel to the cloud, which connects when it is first used.

    Args:
        config: the cloud's address and authority.
        shown: the certificate to show, at ``config.devices_port``.

    Raises:
        ConfigError: there is no address, or the authorities cannot be read.
    """
    host, port = split_address(config.address)
    port = config.devices_port if shown else port
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
    if shown is not None:
        tls = grpc.ssl_channel_credentials(roots(config), shown.key, shown.certificate)
        return grpc.secure_channel(target, tls, options)
    if not needs_tls(config):
        return grpc.insecure_channel(target, options)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots(config)), options)


def needs_tls(config: CloudConfig) -> bool:
    """Return whether plaintext to ``config.address`` is forbidden."""
    return config.ca_file is not None or not is_loopback(split_address(config.address)[0])


def roots(config: CloudConfig) -> bytes | None:
    """Return the trusted authorities as PEM; None stands for the system's.

    Raises:
        ConfigError: the file cannot be read.
    """
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
