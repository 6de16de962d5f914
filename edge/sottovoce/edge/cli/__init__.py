"""The ``sotto`` command. Each command is a module of its own, imported when it is run.

Why it is here: a Pi takes a second to import gRPC and onnxruntime; ``sotto --help`` should not.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from sottovoce.core.system.lazy_group import LazyGroup

__all__ = ["COMMANDS", "main"]

# Before a command imports numpy. Its threads wait for one another by spinning: on a device that has
# other work to do, several make the search four times slower and more, not faster.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "serve": "Run the agent for apps on this device.",
    "pull": "Fetch the bundle from a cloud, or update it.",
    "privatize": "Replace the words of texts; contacts no cloud.",
    "predict": "Have an adapter classify texts, privatised first.",
    "chat": "Talk with a model in the cloud; names are turned back here.",
    "generate": "Have an adapter write on from texts, privatised first.",
    "embed": "Turn texts into sentence embeddings, with noise on what leaves.",
    "customize": "Train an adapter on labelled texts, privatised first.",
    "calibrate": "Explain the protection levels of the bundle.",
    "bench": "Measure this device: time, memory, start.",
    "status": "Show bundle, ledger and customisations.",
    "rotate-key": "Replace the secret key of the noise.",
    "doctor": "Check this device's setup and say how to mend it.",
}


@click.group(
    cls=LazyGroup,
    package=__name__,
    summaries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Configuration file.  [default: SOTTO_CONFIG, else $XDG_CONFIG_HOME/sottovoce/agent.toml]",
)
@click.version_option(
    package_name="sottovoce-edge", prog_name="sotto", message="%(prog)s %(version)s"
)
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Use a large language model in the cloud without your text leaving in the clear."""
    ctx.obj = config
