"""The ``sotto-cloud`` command. Each command is a module, imported when it is run,

because ``sotto-cloud --help`` should not wait for torch.
"""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.cloud.cli.configuration import defaults, read
from sottovoce.core.errors import SottovoceError
from sottovoce.core.system.console import tell
from sottovoce.core.system.lazy_group import LazyGroup

__all__ = ["ALIASES", "COMMANDS", "HINTS", "main"]

COMMANDS = {
    "serve": "Serve bundles, training and predictions.",
    "replica": "Serve predictions and bundles, as one of many behind a balancer.",
    "front": "Take uploads and answer for jobs, without a model, behind a balancer.",
    "trainer": "Train queued jobs, beside others or alone on a machine.",
    "balancer-config": "Print a configuration of HAProxy or Envoy before replicas and fronts.",
    "health": "Ask whether a server answers calls.",
    "status": "Show jobs, queue, trainers, and what processes say of themselves.",
    "ui": "Open a page of jobs, tenants and processes in a browser.",
    "enroll": "Add a tenant and print its token.",
    "tenants": "List tenants, shut them out, let them in again.",
    "authority": "Make the authority that signs devices' certificates.",
    "tokens": "List, make and revoke the tokens of a tenant's devices.",
    "limit": "Show or change the limits of one tenant.",
    "jobs": "List, show, cancel or delete customisation jobs.",
    "audit-log": "Show who let in, shut out or changed whom.",
    "audit": "Test the epsilon of private training, by trying to refute it.",
    "build-bundle": "Build the bundle that devices fetch.",
    "bundles": "Publish bundles for many machines, list and delete them.",
    "train-tagger": "Train the part-of-speech tagger from treebanks.",
    "train-names": "Train the finder of names of persons, places and organisations.",
    "train-denoiser": "Train the denoiser that devices run on noisy answers.",
    "count-words": "Count word frequencies in public text.",
    "device-counts": "Cut them down to the table that ships with the device.",
    "completion": "Print the completion script for a shell.",
    "version": "Print the version.",
}

ALIASES = {
    "start": "serve",
    "up": "serve",
    "tenant": "tenants",
    "enrol": "enroll",
    "token": "tokens",
    "credentials": "tokens",
    "limits": "limit",
    "quota": "limit",
    "ps": "jobs",
    "job": "jobs",
    "users": "tenants",
    "info": "status",
    "top": "status",
    "dashboard": "ui",
    "web": "ui",
    "gui": "ui",
    "build": "build-bundle",
    "bundle": "bundles",
}
"""What else commands are called by who comes from another tool."""

HINTS = {
    "list": "`sotto-cloud jobs list` lists jobs",
    "ls": "`sotto-cloud jobs list` lists jobs",
    "show": "`sotto-cloud jobs show ID` shows a job",
    "get": "`sotto-cloud jobs show ID` shows a job",
    "describe": "`sotto-cloud jobs show ID` shows a job",
    "inspect": "`sotto-cloud jobs show ID` shows a job",
    "logs": "`sotto-cloud jobs show ID` shows a job; the server logs to standard error",
    "cancel": "`sotto-cloud jobs cancel ID` cancels a job",
    "kill": "`sotto-cloud jobs cancel ID` cancels a job",
    "rm": "`sotto-cloud jobs delete ID` deletes a job and its adapter",
    "delete": "`sotto-cloud jobs delete ID` deletes a job and its adapter",
    "adapters": "`sotto-cloud jobs list` lists jobs and the adapters they train",
    "models": "`sotto-cloud bundles list` lists bundles, `sotto-cloud jobs list` adapters",
    "revoke": "`sotto-cloud tokens revoke TENANT NAME` shuts out a device",
    "disable": "`sotto-cloud tenants disable TENANT` shuts out a tenant",
    "enable": "`sotto-cloud tenants enable TENANT` lets it in again",
    "login": "nobody logs in here: `sotto-cloud tokens code TENANT` lets a device in",
    "whoami": "nobody logs in here: `sotto-cloud audit-log` shows who did what",
    "keys": "`sotto-cloud tokens list` lists tokens; the master key is a file (--key-file)",
    "stop": "Ctrl-C or SIGTERM ends `sotto-cloud serve`",
    "down": "Ctrl-C or SIGTERM ends `sotto-cloud serve`",
    "restart": "end `sotto-cloud serve` and start it again; jobs go on where they were",
    "run": "`sotto-cloud serve` runs all of it, on one machine",
    "init": "`sotto-cloud build-bundle`, `sotto-cloud enroll TENANT`, then `sotto-cloud serve`",
    "setup": "`sotto-cloud build-bundle`, `sotto-cloud enroll TENANT`, then `sotto-cloud serve`",
    "config": "options may stand in a file, as --config names it: `sotto-cloud serve --help`",
    "upgrade": "pip updates this program, and `sotto-cloud serve` its state",
    "doctor": "`sotto-cloud status` shows jobs and trainers, `sotto-cloud health` asks a server",
    "metrics": "`sotto-cloud status --metrics HOST:PORT` shows what a process counts",
    "history": "`sotto-cloud audit-log` shows who changed what, `sotto-cloud jobs list` past jobs",
    "backup": "end `sotto-cloud serve` and copy its --state, master key and all",
    "finetune": "devices start trainings, by `sotto customize`; `sotto-cloud jobs list` shows them",
    "train": "devices start trainings, by `sotto customize`; `sotto-cloud jobs list` shows them",
    "push": "`sotto-cloud bundles publish FOLDER` publishes a bundle",
    "publish": "`sotto-cloud bundles publish FOLDER` publishes a bundle",
    "publish-bundle": "`sotto-cloud bundles publish FOLDER` publishes a bundle",
    "pull": "`sotto pull` is for devices; here, `sotto-cloud build-bundle` makes what they pull",
}
"""What is no command here, and what to type."""


@click.group(
    cls=LazyGroup,
    package=__name__,
    summaries=COMMANDS,
    aliases=ALIASES,
    hints=HINTS,
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
    help="TOML file of options: a table a command.",
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
