"""The ``sotto-cloud`` command. Each command is a module, imported when it is run,

because ``sotto-cloud --help`` should not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import click

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "serve": "Serve bundles, training and predictions.",
    "enroll": "Add a tenant and print its token.",
    "jobs": "List, show, cancel or delete customisation jobs.",
    "build-bundle": "Build the bundle that devices fetch.",
    "train-tagger": "Train the part-of-speech tagger from treebanks.",
    "count-words": "Count word frequencies in public text.",
}


class _Commands(click.Group):
    """A group that knows its commands by name before any is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"sotto-cloud {version('sottovoce-cloud')}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Train and serve adapters on text that was privatised on its owner's device."""
