"""The ``sotto`` command.

A module is imported when one of its commands runs. A Raspberry Pi takes a second to import gRPC and
onnxruntime. ``sotto --help`` should be faster.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from sottovoce.core.platform.console import LazyGroup, completion_command, version_command
from sottovoce.edge.cli.common import PATH

# Set before a command imports numpy. OpenBLAS threads wait for each other by spinning. On a busy
# device, several threads make the search at least four times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Keep gRPC from logging to standard error, because our own errors say the same in words.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

GROUPS = {
    "Privatise": {
        "privatize": "Replace the words of texts; contacts no cloud.",
        "try": "Show how a text would leave; sends nothing.",
        "embed": "Turn texts into sentence embeddings; noise is added first.",
        "words": "Say which words the policy personal passes or hides.",
        "calibrate": "Explain the protection levels of the bundle.",
    },
    "Conversations": {
        "chat": "Talk with a model in the cloud; names are restored here.",
        "run": "Run a program as an OpenAI client of the agent.",
        "generate": "Have an adapter continue texts, privatised first.",
    },
    "Adapters": {
        "customize": "Train an adapter on labelled texts, privatised first.",
        "distill": "Label public texts by prompts with your examples, privately.",
        "learn": "Train an adapter on this device alone.",
        "predict": "Have an adapter classify texts, here or in the cloud.",
        "correct": "Keep the right label of a text, on this device.",
        "corrections": "Count, show or forget the corrections kept here.",
        "fetch": "Fetch an adapter, so that this device answers by itself.",
        "list": "List the adapters that were customised here.",
        "show": "Show one adapter and its versions.",
        "logs": "Follow the training of an adapter until it ends.",
        "cancel": "End a training; nothing more of it leaves.",
        "rollback": "Go back to an earlier version of an adapter.",
        "rm": "Delete an adapter, here and in the cloud.",
        "share": "Write a file that lets your other devices use an adapter.",
        "join": "Use an adapter of another device of yours.",
    },
    "Service and setup": {
        "serve": "Run the agent for apps on this device.",
        "service": "Have systemd run the agent.",
        "ui": "Open the agent's page in a browser.",
        "enroll": "Register this device with a cloud, by the provider's code.",
        "pull": "Fetch the bundle from a cloud, or update it.",
        "apps": "Give each app a separate token, with limits.",
        "config": "List, get or set the settings.",
        "rotate-key": "Replace the secret key of the noise.",
        "move-key": "Move the key of the state to a file, credential or keyring.",
    },
    "Diagnosis": {
        "status": "Show bundle, ledger and customisations.",
        "ledger": "Say how much privacy was spent, and how much is left.",
        "doctor": "Check this device's setup and say how to fix it.",
        "bench": "Measure this device: time, memory, start.",
        "bugreport": "Print the facts for a bug report; no text, no names.",
        "licences": "Show the licences of the program and the models.",
        "completion": "Print the completion script for a shell.",
        "version": "Print the version.",
    },
}
"""The commands under the headings of the help, each with one line."""

COMMANDS = {name: told for group in GROUPS.values() for name, told in group.items()}


MODULES = {
    name: module
    for module, names in {
        "privatize": ("try",),
        "conversations": ("chat", "generate", "run"),
        "predict": ("embed", "correct", "corrections"),
        "customize": ("learn", "distill"),
        "adapters": ("list", "show", "cancel", "rollback", "rm", "share", "join", "fetch"),
        "enroll": ("pull",),
        "config": ("words", "move-key", "rotate-key"),
        "service": ("serve", "ui"),
        "reports": ("status", "ledger", "logs", "doctor", "licences", "bugreport", "bench"),
    }.items()
    for name in names
}
"""The module of each command that has none of its own name."""


@click.group(
    cls=LazyGroup,
    package=__name__,
    groups=GROUPS,
    modules=MODULES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config",
    type=PATH,
    help="Configuration file.  [default: SOTTO_CONFIG, else $XDG_CONFIG_HOME/sottovoce/agent.toml]",
)
@click.version_option(
    package_name="sottovoce-edge", prog_name="sotto", message="%(prog)s %(version)s"
)
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Use a large language model in the cloud; private words are replaced before they leave."""
    ctx.obj = config


main.add_command(completion_command("sotto"))
main.add_command(version_command("sotto", "sottovoce-edge"))
