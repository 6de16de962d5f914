"""``sotto customize``."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from rich.progress import Progress

from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Remote, remote
from sottovoce.edge.cli.common import (
    Command,
    json_option,
    load_config,
    print_json,
    privacy_options,
    progress_bar,
)
from sottovoce.edge.cli.lines import read_lines
from sottovoce.edge.errors import InvalidInput, NotReady
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command", "read_table"]

_EXAMPLES_A_MESSAGE = 16


@click.command("customize", cls=Command)
@click.argument("adapter", metavar="NAME")
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Table: a header with the columns text and label, then one example a line, tab-separated.",
)
@privacy_options
@click.option(
    "--reconstruction/--no-reconstruction",
    default=False,
    show_default=True,
    help="Train with the reconstruction head.",
)
@click.option(
    "--plain-tokens",
    type=click.IntRange(0, 64),
    default=0,
    help="Plain tokens in front of each example, with --reconstruction.  [default: configured]",
)
@click.option("--epochs", type=click.IntRange(0, 1000), default=0, help="[default: the cloud's]")
@click.option(
    "--label-epsilon",
    type=float,
    default=0.0,
    help="Randomised response on labels with this epsilon.  [default: labels as they are]",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the training in the cloud.")
@click.option("--watch/--no-watch", default=True, show_default=True, help="Wait until it ends.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str,
    source: Path,
    level: str,
    mechanism: str,
    policy: str,
    reconstruction: bool,
    plain_tokens: int,
    epochs: int,
    label_epsilon: float,
    seed: int,
    watch: bool,
    as_json: bool,
) -> None:
    """Train the adapter NAME on labelled texts, privatised first.

    Returns at the latest when training has ended; Ctrl-C while waiting stops the waiting only. Once
    all texts are privatised and queued, upload and training go on without this command.
    """
    config = load_config(ctx)
    settings = agent.CustomizationSettings(
        adapter=adapter,
        privacy=agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
        reconstruction=reconstruction,
        plain_tokens=plain_tokens,
        label_epsilon=label_epsilon,
        epochs=epochs,
        seed=seed,
        request_id=secrets.token_hex(16),
    )
    with remote(config) as running:
        examples = read_table(source)
        with progress_bar() as progress:
            requests = _requests(settings, examples, progress)
            record = running.customize(requests)
            if watch:
                record = _watch(running, record, progress, quiet=as_json)
    if as_json:
        print_json(views.customization(record))
    else:
        click.echo(_sentence(record))
    if record.state in (agent.CUSTOMIZATION_STATE_FAILED, agent.CUSTOMIZATION_STATE_CANCELLED):
        raise NotReady(
            f"adapter {adapter!r} was not trained: {record.message or 'the job was cancelled'}",
            subject=adapter,
        )


def read_table(source: Path) -> list[agent.LabelledText]:
    """The examples of a tab-separated file whose header names the columns text and label.

    Raises:
        InvalidInput: the header or a row is wrong; the message gives the line's number.
    """
    rows = read_lines(source, "reading")
    header = next(rows).text.rstrip("\r").split("\t")
    missing = [name for name in ("text", "label") if header.count(name) != 1]
    if missing:
        raise InvalidInput(
            f"{source}, line 1: no column {missing[0]!r}",
            fix="begin the file with a header: text<TAB>label",
            subject="input",
        )
    examples: list[agent.LabelledText] = []
    for line in rows:
        fields = line.text.rstrip("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != len(header):
            raise InvalidInput(
                f"{line.place}: {len(fields)} columns where the header has {len(header)}",
                fix="put one tab between text and label, and none inside them",
                subject="input",
            )
        row = dict(zip(header, fields, strict=True))
        for name in ("text", "label"):
            if not row[name].strip():
                raise InvalidInput(
                    f"{line.place}: the {name} is empty", fix="fill it in or drop the line"
                )
        examples.append(agent.LabelledText(text=row["text"], label=row["label"].strip()))
    return examples


def _requests(
    settings: agent.CustomizationSettings,
    examples: list[agent.LabelledText],
    progress: Progress,
) -> Iterator[agent.CustomizeRequest]:
    task = progress.add_task("privatising", total=len(examples), note="")
    yield agent.CustomizeRequest(settings=settings)
    for start in range(0, len(examples), _EXAMPLES_A_MESSAGE):
        some = examples[start : start + _EXAMPLES_A_MESSAGE]
        yield agent.CustomizeRequest(examples=agent.LabelledTexts(examples=some))
        progress.advance(task, len(some))


def _watch(
    running: Remote, queued: agent.Customization, progress: Progress, *, quiet: bool
) -> agent.Customization:
    upload = progress.add_task("uploading", total=queued.examples, note="")
    train = progress.add_task("training", total=None, note="")
    record, told = queued, ""
    for record in _until_interrupted(running.watch(queued.id), quiet=quiet):
        progress.update(upload, completed=record.uploaded)
        note = record.message
        if record.held_out_accuracy:
            note = f"held-out accuracy {record.held_out_accuracy:.1%}  {note}"
        progress.update(train, completed=record.epoch, total=record.epochs or None, note=note)
        sentence = _sentence(record)
        if progress.disable and not quiet and sentence != told:
            click.echo(sentence, err=True)
            told = sentence
    return record


def _until_interrupted(
    records: Iterable[agent.Customization], *, quiet: bool
) -> Iterator[agent.Customization]:
    try:
        yield from records
    except KeyboardInterrupt:
        if not quiet:
            click.echo("no longer watching; it goes on (`sotto status`)", err=True)


def _sentence(record: agent.Customization) -> str:
    name = f"{record.adapter} ({record.id[:8]})"
    waiting = f": {record.message}" if record.message else ""
    match record.state:
        case agent.CUSTOMIZATION_STATE_UPLOADING:
            return f"{name}: {record.uploaded} of {record.examples} uploaded{waiting}"
        case agent.CUSTOMIZATION_STATE_TRAINING if record.epochs:
            return f"{name}: epoch {record.epoch} of {record.epochs}{waiting}"
        case agent.CUSTOMIZATION_STATE_SUCCEEDED:
            return f"{name}: trained, held-out accuracy {record.held_out_accuracy:.1%}"
        case _:
            return f"{name}: {views.state_name(record).lower()}{waiting}"
