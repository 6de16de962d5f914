"""``sotto config``: the settings, read and changed one at a time."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import click

from sottovoce.core.errors import ConfigError
from sottovoce.core.system.console import Command, json_option, print_json
from sottovoce.core.system.files import disk, in_place_of
from sottovoce.core.system.owner import as_owner_of
from sottovoce.edge import config as settings
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.config import Config

__all__ = ["changed", "command", "place", "write"]


@click.group("config")
def command() -> None:
    """List, get or set the settings of this device."""


@command.command("list", cls=Command)
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """All settings as they hold now, environment variables counted in."""
    config = load_config(ctx)
    values = _values(config)
    if as_json:
        print_json({"file": str(config.source or ""), "settings": values})
        return
    click.echo(f"# {config.source or 'defaults; no file'}")
    for name, value in values.items():
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")


@command.command("get", cls=Command)
@click.argument("name")
@json_option
@click.pass_context
def get(ctx: click.Context, name: str, as_json: bool) -> None:
    """The setting NAME, such as privacy.level."""
    value = _found(load_config(ctx), name)
    if as_json:
        print_json({"name": name, "value": value})
    else:
        click.echo("" if value is None else ",".join(value) if isinstance(value, tuple) else value)


@command.command("set", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("value")
@json_option
@click.pass_context
def set_(ctx: click.Context, name: str, value: str, as_json: bool) -> None:
    """Write VALUE for the setting NAME into the configuration file, comments kept.

    Refused where the settings would not hold together afterwards. A running agent goes by it after
    a restart.
    """
    config = load_config(ctx)
    held = _found(config, name)
    written = (
        value if isinstance(held, bool | int | float) else json.dumps(value, ensure_ascii=False)
    )
    if isinstance(held, tuple):
        names = (each.strip() for each in value.split(","))
        written = json.dumps([each for each in names if each], ensure_ascii=False)
    file = write(config, {name: written})
    overridden = f"SOTTO_{name.replace('.', '_').upper()}"
    if as_json:
        print_json({"file": str(file), "name": name})
    else:
        click.echo(f"{name} is written to {file}")
        if overridden in os.environ:
            click.echo(f"{overridden} is set, and overrides it", err=True)


def write(config: Config, values: Mapping[str, str]) -> Path:
    """Writes settings into the configuration file, all of them or none.

    Args:
        config: as it was loaded.
        values: by their names, as TOML writes them.

    Returns:
        The file.

    Raises:
        ConfigError: the settings would not hold together, or the file cannot be changed.
    """
    file = place(config)
    with as_owner_of(file):
        _write(file, values)
    return file


def place(config: Config) -> Path:
    """The configuration file that settings are written into."""
    return config.source or _usual()


def _write(file: Path, values: Mapping[str, str]) -> None:
    with disk(file):
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    for name, value in values.items():
        text = changed(text, name, value)
    with disk(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with disk(file), in_place_of(file) as aside:
        with _new(aside, like=file) as out:
            out.write(text.encode())
        try:
            settings.load(aside)
        except ConfigError as error:
            problem = error.problem.replace(str(aside), str(file))
            raise ConfigError(problem, fix=error.fix, subject=error.subject) from error


def _new(aside: Path, *, like: Path) -> BinaryIO:
    """A new file to write, mode 0600, or with the owner and mode of `like` if it is there: an agent
    that runs as another user than who changes its settings reads them afterwards as well."""
    was = like.stat() if like.exists() else None
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    if was is not None:
        with suppress(
            PermissionError
        ):  # only root may; whoever else changes it is whose it becomes
            os.fchown(descriptor, was.st_uid, was.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(was.st_mode))
    return os.fdopen(descriptor, "wb")


def changed(text: str, name: str, value: str) -> str:
    """A TOML document with one setting changed.

    Args:
        text: the document.
        name: "section.key".
        value: as TOML writes it.

    Raises:
        ConfigError: it is written in a way that is not ours to change, or the value is no TOML.
    """
    section, _, key = name.partition(".")
    line = f"{key} = {value}"
    lines = text.splitlines()
    heads = [n for n, each in enumerate(lines) if re.match(r"\s*\[", each)]
    head = next((n for n in heads if re.match(rf"\s*\[\s*{section}\s*\]", lines[n])), None)
    if head is None:
        lines += ["", f"[{section}]", line] if lines else [f"[{section}]", line]
    else:
        end = next((n for n in heads if n > head), len(lines))
        found = (n for n in range(head + 1, end) if re.match(rf"\s*{key}\s*=", lines[n]))
        place = next(found, None)
        if place is None:
            lines.insert(head + 1, line)
        else:
            lines[place] = line
    after = "\n".join(lines) + "\n"
    try:
        wanted = tomllib.loads(text)
        wanted.setdefault(section, {})[key] = tomllib.loads(f"v = {value}")["v"]
        if tomllib.loads(after) == wanted:
            return after
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} cannot be written: {error}", subject=name) from error
    raise ConfigError(
        f"{name} stands in the file in a way of its own", fix="change it by hand", subject=name
    )


def _usual() -> Path:
    """Where a user's own settings are read from, once they are there."""
    base = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME') or Path.home()}/.config"
    return Path(base) / "sottovoce" / "agent.toml"


def _found(config: Config, name: str) -> Any:
    """The value of a setting (ConfigError: there is none of that name)."""
    values = _values(config)
    if name in values:
        return values[name]
    near = difflib.get_close_matches(name, values, 1)
    raise ConfigError(
        f"there is no setting {name!r}",
        fix=f"did you mean {near[0]!r}?" if near else "`sotto config list` shows all",
        subject=name,
    )


def _values(config: Config) -> dict[str, Any]:
    """Every setting by its name; paths as text."""
    return {
        f"{section.name}.{key}": str(value) if isinstance(value, Path) else value
        for section in dataclasses.fields(config)
        if section.name != "source"
        for key, value in dataclasses.asdict(getattr(config, section.name)).items()
    }
