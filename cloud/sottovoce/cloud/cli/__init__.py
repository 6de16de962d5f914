"""The ``sotto-cloud`` command. Each command is a module, imported when it is run,

because ``sotto-cloud --help`` should not wait for torch.
"""

from __future__ import annotations

import click

from sottovoce.core.system.lazy_group import LazyGroup

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "serve": "Serve bundles, training and predictions.",
    "enroll": "Add a tenant and print its token.",
    "limit": "Show or change the limits of one tenant.",
    "jobs": "List, show, cancel or delete customisation jobs.",
    "audit": "Test the epsilon of private training, by trying to refute it.",
    "build-bundle": "Build the bundle that devices fetch.",
    "train-tagger": "Train the part-of-speech tagger from treebanks.",
    "train-names": "Train the finder of names of persons, places and organisations.",
    "train-denoiser": "Train the denoiser that devices run on noisy answers.",
    "count-words": "Count word frequencies in public text.",
    "device-counts": "Cut them down to the table that ships with the device.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    summaries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    package_name="sottovoce-cloud", prog_name="sotto-cloud", message="%(prog)s %(version)s"
)
def main() -> None:
    """Train and serve adapters on text that was privatised on its owner's device."""
