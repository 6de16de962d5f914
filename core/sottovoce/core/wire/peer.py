"""Identifies a caller by host, before authentication."""

from __future__ import annotations

import ipaddress

__all__ = ["host"]


def host(peer: str) -> str:
    """Return the host of a gRPC peer: ``ipv4:1.2.3.4:5``, ``ipv6:%5B::1%5D:5`` or ``unix:``.

    For IPv4 this is the address. For IPv6 it is the first 64 bits, because one subscriber usually
    has all addresses below them.
    """
    kind, _, rest = peer.partition(":")
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    if kind == "ipv6":
        try:
            return str(ipaddress.ip_network((address, 64), strict=False))
        except ValueError:
            return address
    return address
