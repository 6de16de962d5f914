"""Both programs' settings may stand in the environment of one shell."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.core.errors import ConfigError
from sottovoce.edge.config import load


def variables(command: click.Command) -> Iterator[str]:
    """Those that a command reads, and its own commands."""
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.envvar, str):
            yield option.envvar
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from variables(found)


PROVIDERS = sorted(set(variables(sotto_cloud)))


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_device_passes_over_what_the_provider_sets(name: str) -> None:
    usual = load(environ={"HOME": "/h"})
    assert load(environ={"HOME": "/h", name: "anything"}) == usual
    with pytest.raises(ConfigError, match="unknown setting"):
        load(environ={"HOME": "/h", f"{name}S": "anything"})


def test_there_are_some() -> None:
    assert "SOTTO_CLOUD_CONFIG" in PROVIDERS
    assert len(PROVIDERS) > 5
