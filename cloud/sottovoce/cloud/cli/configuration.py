"""A configuration file with default options of commands.

Top-level keys apply to every command, and the keys of a table to the command of that name. A key is
an option without its leading dashes. The command line and the environment override the file.

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
from sottovoce.core.platform.files import toml_place

__all__ = ["defaults", "read"]

_COMMON: Final = ("state", "store", "objects", "key-file")
"""Permitted top-level options: the same for a server and for the commands that manage it."""

Document = Mapping[str, Any]


def read(file: Path, commands: Mapping[str, object]) -> Document:
    """Read the options in ``file``, by command.

    Raises:
        ConfigError: it cannot be read, is not TOML, or names an unknown command or option.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}", fix="correct --config", subject="config"
        ) from error
    except ValueError as error:  # not quoted: it may hold a password
        raise ConfigError(
            f"{file} is not TOML{toml_place(error)}",
            fix="correct it, or write it as docs/scaling.md shows",
            subject="config",
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
    """Return click's defaults for a command, or for a group's commands, by parameter.

    Raises:
        ConfigError: the table has an option that neither the command nor any in the group has.
    """
    own = document.get(name, {})
    for key in own.keys() - _options(command).keys():
        raise ConfigError(
            f"`sotto-cloud {name}` has no option --{key}",
            fix=f"see `sotto-cloud {name} --help`",
            subject="config",
        )
    common = {key: document[key] for key in _COMMON if key in document}
    return _taken(command, common | own)


def _taken(command: click.Command, values: Document) -> dict[str, Any]:
    """Return a table's values for each command of a group that has the option."""
    if isinstance(command, click.Group):
        return {each: _taken(inner, values) for each, inner in command.commands.items()}
    options = _options(command)
    return {
        str(option.name): _value(option, values[key])
        for key, option in options.items()
        if key in values
    }


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options by written name; for a group, those of all its commands."""
    if isinstance(command, click.Group):
        return {
            written: option
            for inner in command.commands.values()
            for written, option in _options(inner).items()
        }
    return {
        written.lstrip("-"): option
        for option in command.params
        if isinstance(option, click.Option)
        for written in option.opts
    }


def _value(option: click.Option, value: Any) -> Any:
    return [value] if option.multiple and not isinstance(value, list) else value
