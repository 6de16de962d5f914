"""The ``sotto-models`` command: builds bundles and trains the small models in them.

Each command is a module, imported when it runs, so that ``--help`` does not wait for torch.
"""

from __future__ import annotations

import click

from sottovoce.core.errors import Side
from sottovoce.core.platform.commands import LazyGroup

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "build-bundle": "Build the bundle that devices fetch.",
    "train-tagger": "Train the part-of-speech tagger from treebanks.",
    "train-names": "Train the finder of names of persons, places and organisations.",
    "train-denoiser": "Train the denoiser that devices run on noisy answers.",
    "count-words": "Count word frequencies in public text.",
    "device-counts": "Cut the counts down to the table that ships with the device.",
    "completion": "Print the completion script for a shell.",
    "version": "Print the version.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    summaries=COMMANDS,
    side=Side.PROVIDER,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    package_name="sottovoce-models", prog_name="sotto-models", message="%(prog)s %(version)s"
)
def main() -> None:
    """Build bundles, and train the small models in them."""
