"""A file of options, for those who would rather not repeat them.

Top-level keys are for every command, the keys of a table for the command it is called after; a key
is an option without its dashes in front. The command line and the environment go before the file.

    store = "postgresql://sotto@db.example.org/sotto"
    [serve]
    bundle = ["build/bundle"]
    limit-examples = 50000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.core.errors import ConfigError

__all__ = ["defaults", "read"]

_COMMON: Final = ("state", "store")
"""What the top level may say: the same for a server and for those who look after it."""

Document = Mapping[str, Any]


def read(file: Path, commands: Mapping[str, object]) -> Document:
    """What ``file`` says, by command.

    Raises:
        ConfigError: it cannot be read, is no TOML, or speaks of what there is not.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}", fix="correct --config", subject="config"
        ) from error
    except ValueError as error:  # not quoted: it may hold a password
        raise ConfigError(
            f"{file} is no TOML", fix="write it as docs/scaling.md shows", subject="config"
        ) from error
    for key, value in document.items():
        if (key not in commands) if isinstance(value, dict) else (key not in _COMMON):
            raise ConfigError(
                f"{file} speaks of {key!r}, which there is not",
                fix=f"use {', '.join(_COMMON)}, and tables called after commands",
                subject="config",
            )
    return document


def defaults(command: click.Command, name: str, document: Document) -> dict[str, Any]:
    """What click takes as the defaults of a command, or of those in a group, by parameter.

    Raises:
        ConfigError: the command's table has an option that the command has not.
    """
    own = document.get(name, {})
    common = {key: document[key] for key in _COMMON if key in document}
    if isinstance(command, click.Group):
        # What a table says is for all commands of the group.
        return {each: defaults(inner, name, document) for each, inner in command.commands.items()}
    options = {
        written.lstrip("-"): option
        for option in command.params
        if isinstance(option, click.Option)
        for written in option.opts
    }
    for key in own.keys() - options.keys():
        raise ConfigError(
            f"`sotto-cloud {name}` has no option --{key}",
            fix=f"see `sotto-cloud {name} --help`",
            subject="config",
        )
    given = {key: value for key, value in (common | own).items() if key in options}
    return {str(options[key].name): _value(options[key], value) for key, value in given.items()}


def _value(option: click.Option, value: Any) -> Any:
    return [value] if option.multiple and not isinstance(value, list) else value
