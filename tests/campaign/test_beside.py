"""The part that runs everything beside a daemon leaves nothing out."""

from __future__ import annotations

from sottovoce.edge import cli
from tests.campaign.beside import COMMANDS


def test_every_command_is_run() -> None:
    assert COMMANDS.keys() == cli.COMMANDS.keys()
