"""Who counts as one caller before anybody knows who it is."""

from __future__ import annotations

import ipaddress

__all__ = ["host"]


def host(peer: str) -> str:
    """Who is one caller, of ``ipv4:1.2.3.4:5``, ``ipv6:%5B::1%5D:5`` or ``unix:``: an address, or,
    of the newer kind, the 64 bits that somebody has all to himself."""
    kind, _, rest = peer.partition(":")
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    if kind == "ipv6":
        try:
            return str(ipaddress.ip_network((address, 64), strict=False))
        except ValueError:
            return address
    return address
