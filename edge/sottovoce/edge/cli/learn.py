"""``sotto learn``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    print_json,
    progress_bar,
)
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import in_process
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.cli.tables import read_table
from sottovoce.edge.tasks.learn import Learner

__all__ = ["command"]


@click.command("learn", cls=Command)
@click.argument("adapter", metavar="NAME")
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Table: a header with the columns text and label, then one example a line, tab-separated.",
)
@click.option("--replace", is_flag=True, help="Train it anew where there is one of this name.")
@json_option
@click.pass_context
def command(ctx: click.Context, adapter: str, source: Path, replace: bool, as_json: bool) -> None:
    """Train the adapter NAME on this device alone: nothing is released, sent or charged.

    A linear head over the bundle's encoder (`sotto pull --encoder`). `sotto predict` takes it as it
    takes those that the cloud trained, which learn more from as many examples.
    """
    examples = read_table(source)
    if_interrupted(f"{adapter} has not changed", "run the same command again")
    with in_process(load_config(ctx)) as device, progress_bar() as bar:
        task = bar.add_task("reading", total=len(examples), note="")
        learner = Learner(device.store, device.outbox, device.home, device.home.folder)
        record = learner.learn(
            adapter,
            examples,
            replace=replace,
            progress=lambda done: bar.update(task, completed=done),
        )
    if as_json:
        print_json(views.customization(record))
    else:
        click.echo(f"{adapter} has learnt from {record.examples} examples, on this device alone")
