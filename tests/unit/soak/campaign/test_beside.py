"""The part that runs everything beside a daemon leaves nothing out."""

from __future__ import annotations

from soak.campaign.beside import COMMANDS
from sottovoce.edge import cli


def test_every_command_is_run() -> None:
    assert COMMANDS.keys() == cli.COMMANDS.keys()
