"""What processes of this machine are given is theirs."""

from __future__ import annotations

import socket

import pytest

from bench.live.testbed import free_address


def test_an_address_stays_free_for_who_was_given_it_alone() -> None:
    host, _, port = free_address().rpartition(":")
    with socket.socket() as another, pytest.raises(OSError, match="in use"):
        another.bind((host, int(port)))
    socket.create_server((host, int(port))).close()
