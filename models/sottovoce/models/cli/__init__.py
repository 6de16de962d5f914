"""The ``sotto-models`` command, which builds bundles and trains the small models in them.

A module holds the commands of one topic. It is imported when one of its commands runs, so
``--help`` does not wait for torch.
"""

from __future__ import annotations

import click

from sottovoce.core.errors import Side
from sottovoce.core.platform.console import LazyGroup, completion_command, version_command

COMMANDS = {
    "build-bundle": "Build the bundle that devices fetch.",
    "export": "Export a backbone as devices run it.",
    "train-tagger": "Train the part-of-speech tagger from treebanks.",
    "train-names": "Train the finder of names of persons, places and organisations.",
    "train-context-finder": "Train or measure the name finder that reads whole sentences.",
    "train-denoiser": "Train the denoiser that devices run on noisy answers.",
    "count-words": "Count word frequencies in public text.",
    "device-counts": "Make the word lists that ship with the device.",
    "vocabulary": "Build the public vocabulary that ships with the device.",
    "completion": "Print the completion script for a shell.",
    "version": "Print the version.",
}

_MODULES = {
    **dict.fromkeys(COMMANDS, "train"),
    **dict.fromkeys(("build-bundle", "export"), "bundle"),
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    groups={"Commands": COMMANDS},
    modules=_MODULES,
    side=Side.PROVIDER,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    package_name="sottovoce-models", prog_name="sotto-models", message="%(prog)s %(version)s"
)
def main() -> None:
    """Build bundles, and train the small models in them."""


main.add_command(completion_command("sotto-models"))
main.add_command(version_command("sotto-models", "sottovoce-models"))
