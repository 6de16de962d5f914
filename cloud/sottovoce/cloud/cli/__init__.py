"""The ``sotto-cloud`` command.

A module holds the commands of one topic, imported when a command of the topic runs. So
``sotto-cloud --help`` does not wait for torch.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from sottovoce.cloud.cli.configuration import defaults, read
from sottovoce.core.errors import Side, SottovoceError
from sottovoce.core.platform.commands import LazyGroup, completion_command, version_command
from sottovoce.core.platform.console import tell

__all__ = ["COMMANDS", "GROUPS", "main"]

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
    "Jobs": {
        "jobs": "List, show, cancel or delete customisation jobs.",
    },
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
    "replica": "serve",
    "front": "serve",
    "health": "status",
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
    envvar="SOTTO_CLOUD_CONFIG",
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
