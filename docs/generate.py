"""Write docs/cli.md and docs/settings.md from the code: `.venv/bin/python docs/generate.py`.

A test compares both files with the code.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import click

from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.cloud.config import ServerLimits
from sottovoce.edge import config
from sottovoce.edge.cli import main as sotto
from sottovoce.models.cli import main as sotto_models

PAGE = Path(__file__).parent / "cli.md"
SETTINGS = Path(__file__).parent / "settings.md"


def help_of(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    """Return the help of a command and of its subcommands as Markdown."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=88)
    yield f"## `{context.command_path}`\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from help_of(found, inner, context)


def page() -> str:
    """The whole page."""
    sections = [
        "# Commands\n\nThis page shows the help of every command. "
        "`docs/generate.py` writes it; do not edit it.\n"
    ]
    sections += help_of(sotto, "sotto", None)
    sections += help_of(sotto_cloud, "sotto-cloud", None)
    sections += help_of(sotto_models, "sotto-models", None)
    return "\n".join(sections)


def settings_page() -> str:
    """The settings of the agent, section by section, and the limits of a tenant."""
    environ = {"HOME": "~", "XDG_RUNTIME_DIR": "/run/user/UID"}
    usual = config.load(Path("/dev/null"), environ=environ)
    sections = [
        "# Settings\n\nThis page lists every setting of the agent and every limit of a tenant. "
        "`docs/generate.py` writes it; do not edit it.\n\n"
        "The agent reads one TOML file: `--config FILE`, else `SOTTO_CONFIG`, else "
        "`~/.config/sottovoce/agent.toml`. `sotto config set NAME VALUE` changes it. The "
        "environment variable in the last column overrides it.\n"
    ]
    for section in dataclasses.fields(config.Config):
        values = getattr(usual, section.name)
        if dataclasses.is_dataclass(values):
            sections += [
                f"## `[{section.name}]`\n\n{_about(values)}\n",
                _rows(section.name, values),
            ]
    sections += [
        f"## Limits of a tenant\n\n{_about(ServerLimits())} "
        "`sotto-cloud limit TENANT` changes them.\n",
        _table(
            ("limit", "default"),
            (
                (f.name, f"{getattr(ServerLimits(), f.name):,}")
                for f in dataclasses.fields(ServerLimits)
            ),
        ),
    ]
    return "\n".join(sections)


def _about(values: Any) -> str:
    return (inspect.getdoc(type(values)) or "").replace("``", "`")


def _rows(section: str, values: Any) -> str:
    kinds = get_type_hints(type(values))
    return _table(
        ("setting", "default", "variable"),
        (
            (
                f"{section}.{name}",
                _written(getattr(values, name)),
                config.variable(f"{section}.{name}"),
            )
            for name in kinds
        ),
    )


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return str(value) if value not in (None, "") else "(none)"


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return (
        "\n".join(lines + [f"| {' | '.join(f'`{cell}`' for cell in row)} |" for row in rows]) + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SETTINGS.write_text(settings_page(), encoding="utf-8")
