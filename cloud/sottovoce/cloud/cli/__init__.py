"""The ``sotto-cloud`` command.

A module holds the commands of one topic, imported when a command of the topic runs. So
``sotto-cloud --help`` does not wait for torch.

A configuration file holds defaults of options. Top-level keys apply to every command, and the keys
of a table to the command of that name. A key is an option without its leading dashes. The command
line and the environment override the file.

    store = "postgresql://sotto@db.example.org/sotto"
    [serve]
    bundle = ["build/bundle"]
    limit-examples = 50000
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.cloud.config import CONFIG_VARIABLE
from sottovoce.core.errors import ConfigError, Side, SottovoceError
from sottovoce.core.platform.console import LazyGroup, completion_command, tell, version_command
from sottovoce.core.platform.files import toml_place

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


# Keep gRPC from logging to standard error, because our own errors say the same in words.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

GROUPS = {
    "Service": {
        "serve": "Serve bundles, training and predictions.",
        "replica": "Serve predictions and bundles, behind a balancer.",
        "front": "Take uploads and answer for jobs, behind a balancer.",
        "trainer": "Train queued jobs, beside others or alone on a machine.",
        "balancer-config": "Print a HAProxy configuration for replicas and fronts.",
    },
    "Tenants": {
        "enroll": "Add a tenant and print its token.",
        "tenants": "List tenants, shut them out, let them in again.",
        "tokens": "List, make and revoke the tokens of a tenant's devices.",
        "limit": "Show or change the limits of one tenant.",
    },
    "Jobs": {"jobs": "List, show, cancel or delete customisation jobs."},
    "Bundles": {
        "build-bundle": "Build the bundle that devices fetch.",
        "bundles": "Publish bundles for many machines, list and delete them.",
    },
    "Diagnosis": {
        "status": "Show jobs, queue, trainers, and the processes' own reports.",
        "health": "Ask whether a server answers calls.",
        "ui": "Open a page of jobs, tenants and processes in a browser.",
        "audit-log": "Show the changes to tenants and their data.",
        "audit": "Try to refute the epsilon of private training.",
        "completion": "Print the completion script for a shell.",
        "version": "Print the version.",
    },
}
"""The commands under the headings of the help, each with one line."""

COMMANDS = {name: told for group in GROUPS.values() for name, told in group.items()}

_MODULES = {
    "build-bundle": "sottovoce.models.cli.bundle",
    "replica": "serve",
    "front": "serve",
    "trainer": "serve",
    "jobs": "status",
    "health": "status",
    "ui": "status",
    "enroll": "tenants",
    "tokens": "tenants",
    "limit": "tenants",
    "audit-log": "tenants",
    "audit": "privacy_audit",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    groups=GROUPS,
    modules=_MODULES,
    side=Side.PROVIDER,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    package_name="sottovoce-cloud", prog_name="sotto-cloud", message="%(prog)s %(version)s"
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    help="TOML file of options, with a table for each command.",
)
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Train and serve adapters on text that was privatised on its owner's device."""
    called = ctx.invoked_subcommand
    command = main.get_command(ctx, called) if called and config else None
    if called is None or config is None or command is None:
        return
    try:
        ctx.default_map = {called: defaults(command, called, read(config, COMMANDS))}
    except SottovoceError as error:
        tell(error)
        ctx.exit(error.exit_code)


main.add_command(completion_command("sotto-cloud"))
main.add_command(version_command("sotto-cloud", "sottovoce-cloud"))
