"""A caller is an address, or a network with a single owner."""

from __future__ import annotations

import pytest

from sottovoce.core.rpc.channels import host


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ipv4:192.0.2.1:80", "ipv4:192.0.2.1:443", True),
        ("ipv4:192.0.2.1:80", "ipv4:192.0.2.2:80", False),
        ("ipv6:%5B2001:db8::1%5D:80", "ipv6:%5B2001:db8::2:3%5D:80", True),
        ("ipv6:[2001:db8::1]:80", "ipv6:[2001:db8:0:1::1]:80", False),
        ("unix:", "unix:/tmp/x", True),
    ],
)
def test_a_host_is_an_address_or_the_network_somebody_has(one: str, other: str, same: bool) -> None:
    assert (host(one) == host(other)) is same
