"""The ``sotto`` command. Each command is a module of its own, imported when it is run.

Why it is here: a Pi takes a second to import gRPC and onnxruntime; ``sotto --help`` should not.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "serve": "Run the agent for apps on this device.",
    "pull": "Fetch the bundle from a cloud, or update it.",
    "privatize": "Replace the words of texts; contacts no cloud.",
    "predict": "Have an adapter classify texts, privatised first.",
    "customize": "Train an adapter on labelled texts, privatised first.",
    "calibrate": "Explain the protection levels of the bundle.",
    "status": "Show bundle, ledger and customisations.",
    "doctor": "Check this device's setup and say how to mend it.",
}


class _Commands(click.Group):
    """A group that knows its commands by name before any is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"sotto {version('sottovoce-edge')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Configuration file.  [default: SOTTO_CONFIG, else $XDG_CONFIG_HOME/sottovoce/agent.toml]",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Use a large language model in the cloud without your text leaving in the clear."""
    ctx.obj = config
