"""``sotto customize``, ``learn``, ``correct`` and ``corrections``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.progress import Progress

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, SottovoceError
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    print_json,
    progress_bar,
)
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import MOST_SEQUENCES
from sottovoce.edge.cli import common as told
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, parts, reach, remote, request_id
from sottovoce.edge.cli.common import (
    FOR_EITHER,
    interruptible,
    load_config,
    numbered,
    privacy_options,
    read_lines,
    read_table,
)
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks.customize import Learner
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["correct_command", "corrections_command", "customize_command", "learn_command"]

_EXAMPLES_A_MESSAGE = 16
_WITH_ADDED: Final = frozenset(
    {"adapter", "source", "add", "corrections", "label_epsilon", "watch", "as_json"}
).union(field.name for field in training_settings.FIELDS if field.added)

_SAMPLING = {
    "uniform": agent.PLAIN_SAMPLING_UNIFORM,
    "frequency": agent.PLAIN_SAMPLING_FREQUENCY,
}


_F = TypeVar("_F", bound=Callable[..., Any])


def _training_options(function: _F) -> _F:
    """Add an option for each of `training_settings.FIELDS`."""
    for field in reversed(training_settings.FIELDS):
        option = f"--{field.name.replace('_', '-')}"
        wire = training.TrainingSettings.DESCRIPTOR.fields_by_name[field.name]
        if field.names is not None:
            first, *_ = field.names
            kind: dict[str, Any] = {"type": click.Choice([*field.names]), "default": first}
            kind["show_default"] = True
        elif wire.cpp_type == wire.CPPTYPE_BOOL:
            option, kind = f"{option}/--no-{option[2:]}", {"default": False}
        elif wire.cpp_type == wire.CPPTYPE_DOUBLE:
            kind = {"type": click.FloatRange(0.0, field.largest), "default": 0.0}
        else:
            kind = {"type": click.IntRange(0, int(field.largest)), "default": 0}
        function = click.option(option, help=field.help, **kind)(function)
    return function


def _training_of(given: Mapping[str, Any]) -> training.TrainingSettings:
    """Return the training settings for those options."""
    values: dict[str, Any] = {
        field.name: field.names[given[field.name]] if field.names else given[field.name]
        for field in training_settings.FIELDS
    }
    return training.TrainingSettings(**values)


@click.command("customize", cls=Command)
@click.argument("adapter", metavar="NAME")
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="Table: a header with the columns text and label, then one example a line, tab-separated. "
    "With input and output instead, the cloud's decoder learns to write the outputs.",
)
@privacy_options
@_training_options
@click.option(
    "--plain-sequences",
    type=click.IntRange(0, MOST_SEQUENCES),
    default=0,
    help="Draw so many sequences of plain tokens once, for the examples to choose from.  "
    "[default: one for each example]",
)
@click.option(
    "--plain-vocabulary",
    type=click.IntRange(0, 65_536),
    default=0,
    help="Draw from so many of the commonest words.  [default: 7630]",
)
@click.option(
    "--plain-sampling",
    type=click.Choice(list(_SAMPLING)),
    default=None,
    help="Draw words uniformly, or as often as public text has them.  [default: uniform]",
)
@click.option(
    "--label-epsilon",
    type=float,
    default=0.0,
    help="Randomised response on labels with this epsilon.  [default: labels as they are]",
)
@click.option(
    "--dp-few-examples",
    is_flag=True,
    help="Do so on fewer than 1,000 examples too, which costs much accuracy.",
)
@click.option(
    "--pate",
    "public",
    metavar="PUBLIC",
    type=click.Path(path_type=Path),
    help="With --dp-epsilon, learn by PATE: from the texts in this file, one a line, which are "
    "nobody's secret and have no labels; teachers on shares of the input vote on those.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Train it anew where there is one of this name; `sotto rollback` has the one before back.",
)
@click.option(
    "--add",
    is_flag=True,
    help="Add the examples to those the adapter has learnt from, here or on other devices that "
    "share it: training goes on from what it is.",
)
@click.option(
    "--corrections",
    is_flag=True,
    help="With --add, which then needs no --input: add what `sotto correct` has kept. It is "
    "released as other examples are, and forgotten once it was learnt.",
)
@click.option("--watch/--no-watch", default=True, show_default=True, help="Wait until it ends.")
@json_option
@click.pass_context
def customize_command(
    ctx: click.Context,
    /,
    adapter: str,
    source: Path | None,
    level: str,
    mechanism: str,
    policy: str,
    plain_sequences: int,
    plain_vocabulary: int,
    plain_sampling: str | None,
    label_epsilon: float,
    dp_few_examples: bool,
    public: Path | None,
    replace: bool,
    add: bool,
    corrections: bool,
    watch: bool,
    as_json: bool,
    **trained: Any,
) -> None:
    """Train the adapter NAME on labelled texts, or inputs and outputs, privatised first. The name
    stays on the device.

    Returns when training has ended. Once all texts are privatised and queued, upload and training
    go on without this command: Ctrl-C then stops the waiting only. The same command again waits
    for them, and starts no second training.
    """
    if source is None and not corrections:
        raise click.MissingParameter(ctx=ctx, param_type="option", param_hint="'--input'")
    config = load_config(ctx)
    settings = agent.CustomizationSettings(
        adapter=adapter,
        privacy=agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
        training=_training_of(trained),
        plain_sequences=plain_sequences,
        plain_vocabulary=plain_vocabulary,
        plain_sampling=_SAMPLING[plain_sampling] if plain_sampling else None,
        label_epsilon=label_epsilon,
        dp_few_examples=dp_few_examples,
        corrections=corrections,
    )
    settings.training.pate = public is not None
    if add:
        settings = _added(ctx, settings)
    else:
        training_settings.check_plain(settings)
        count = settings.training.plain_tokens or int(settings.training.reconstruction)
        training_settings.check(training_settings.of(settings, count))
    with remote(config) as client:
        examples = read_table(source, *FOR_EITHER) if source else []
        if examples and examples[0].output:
            settings.training.task = training.TASK_GENERATION
        if public:
            examples += _public_texts(public)
        before = client.agent.GetStatus(agent.GetStatusRequest()).customizations
        settings.request_id = request_id(settings, examples, repr(config.privacy), before)
        settings.replace = replace
        with progress_bar() as progress:
            if_interrupted(
                f"{adapter} may not be queued yet",
                "run the same command again: it starts no second training",
            )
            requests = _requests(settings, examples, progress)
            record: agent.Customization = client.agent.Customize(requests).customization
            if_interrupted(*told.left(adapter))
            if watch:
                record = _watch(client, record, progress, quiet=as_json)
        # Corrections kept since then wait for the next time, even if this call started nothing.
        waiting = _waiting(client, adapter) if corrections else 0
    if as_json:
        more = {"waiting": waiting} if corrections else {}
        print_json({**views.customization(record), **more})
    else:
        click.echo(told.sentence(record))
        if waiting:
            some = f"{waiting:,} correction{'s' * (waiting != 1)}"
            then = "" if record.state in ENDED else " when this has ended"
            click.echo(f"{some} of {adapter} wait: repeat the command{then}", err=True)
    if record.state in (agent.CUSTOMIZATION_STATE_FAILED, agent.CUSTOMIZATION_STATE_CANCELLED):
        raise NotReady(
            f"adapter {adapter!r} was not trained: {record.message or 'the job was cancelled'}",
            subject=adapter,
        )


def _added(ctx: click.Context, given: agent.CustomizationSettings) -> agent.CustomizationSettings:
    """Return the settings allowed with --add; the others come from the adapter."""
    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if name not in _WITH_ADDED and source is click.core.ParameterSource.COMMANDLINE:
            raise InvalidInput(
                f"--{name.replace('_', '-')} together with --add",
                fix="leave it out: the adapter keeps what it was trained with",
                subject=name,
            )
    kept = {field.name for field in training_settings.FIELDS if field.added}
    return agent.CustomizationSettings(
        adapter=given.adapter,
        training=training.TrainingSettings(
            **{name: getattr(given.training, name) for name in sorted(kept)}
        ),
        label_epsilon=given.label_epsilon,
        add=True,
        corrections=given.corrections,
    )


def _waiting(client: Client, adapter: str) -> int:
    """Return how many corrections wait."""
    status: agent.GetStatusResponse = client.agent.GetStatus(agent.GetStatusRequest())
    return sum(c.waiting for c in status.corrections if c.adapter == adapter)


def _public_texts(source: Path) -> list[agent.LabelledText]:
    lines = (line.text.strip() for line in read_lines(source, "reading"))
    return [agent.LabelledText(text=text, public=True) for text in lines if text]


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
    client: Client, queued: agent.Customization, progress: Progress, *, quiet: bool
) -> agent.Customization:
    upload = progress.add_task("uploading", total=queued.examples, note="")
    train = progress.add_task("training", total=None, note="")
    record, news = queued, None
    request = agent.WatchCustomizationRequest(id=queued.id)
    for response in interruptible(partial(client.agent.WatchCustomization, request)):
        record = response.customization
        progress.update(upload, completed=record.uploaded)
        epoch, epochs = record.progress.epoch, record.progress.epochs
        progress.update(train, completed=epoch, total=epochs or None, note=told.brief(record))
        now = (record.state, record.uploaded, epoch, record.message)
        if progress.disable and not quiet and now != news:
            click.echo(told.sentence(record), err=True)
            news = now
    return record


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
def learn_command(
    ctx: click.Context, adapter: str, source: Path, replace: bool, as_json: bool
) -> None:
    """Train the adapter NAME on this device alone: nothing is released, sent or charged.

    A linear head over the bundle's encoder (`sotto pull --encoder`, or pip's extra `en-encoder`).
    `sotto predict` takes it as it takes those that the cloud trained, which learn more from as many
    examples.
    """
    examples = read_table(source)
    if_interrupted(f"{adapter} has not changed", "run the same command again")
    with parts(load_config(ctx)) as device, progress_bar() as bar:
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


@click.command("corrections", cls=Command)
@click.argument("name")
@click.option(
    "--show", is_flag=True, help="Print those that wait, as a table that `--input` takes."
)
@click.option("--forget", is_flag=True, help="Forget all of them; cannot be undone.")
@click.option("--text", default="", help="With --forget: only what was said of this text.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@json_option
@click.pass_context
def corrections_command(
    ctx: click.Context, name: str, show: bool, forget: bool, text: str, yes: bool, as_json: bool
) -> None:
    """Say how many corrections of the adapter NAME wait on this device, show or forget them.

    What `sotto customize` has taken is forgotten here when it was learnt, and waits again if the
    training fails or is cancelled.
    """
    if (text and not forget) or (show and forget):
        raise InvalidInput(
            "--text without --forget" if text else "--show together with --forget",
            fix="give --forget alone, or with --text",
            subject="forget",
        )
    if forget and not (yes or text):
        if not sys.stdin.isatty():
            raise InvalidInput("forgetting must be confirmed", fix="add --yes", subject="yes")
        click.confirm(f"Forget all corrections of {name}?", abort=True, err=True)
    with reach(load_config(ctx)) as client:
        if forget:
            request = adapters.ForgetCorrectionsRequest(adapter=name, text=text)
            forgotten = client.adapters.ForgetCorrections(request).forgotten
            if as_json:
                print_json({"adapter": name, "forgotten": forgotten})
            else:
                click.echo(f"forgot {forgotten:,} of {name}")
            return
        waiting, taken = _count(client, name)
        listed = adapters.ListCorrectionsRequest(adapter=name)
        kept = client.adapters.ListCorrections(listed) if show else ()
        shown = [response.correction for response in kept]
    if as_json:
        told: dict[str, object] = {"adapter": name, "waiting": waiting, "taken": taken}
        if show:
            told["corrections"] = [{"text": each.text, "label": each.label} for each in shown]
        print_json(told)
    elif show:
        click.echo("text\tlabel")
        for each in shown:  # tabs and line breaks would break the table
            click.echo(re.sub(r"[\t\r\n]+", " ", each.text) + f"\t{each.label}")
    else:
        click.echo(f"{waiting:,} of {name} wait, {taken:,} in training")


def _count(client: Client, name: str) -> tuple[int, int]:
    """Return how many corrections wait, and how many are in training."""
    status = client.agent.GetStatus(agent.GetStatusRequest())
    if all(record.adapter != name for record in status.customizations):
        raise NotFound(f"no adapter {name!r} on this device", fix="see `sotto list`", subject=name)
    for each in status.corrections:
        if each.adapter == name:
            return each.waiting, each.taken
    return 0, 0


_LARGEST = 2 << 20
"""Bytes of a message; the agent takes a message whole or not at all."""


@click.command("correct", cls=Command)
@click.argument("name")
@click.argument("text", required=False)
@click.argument("label", required=False)
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="Table: a header with the columns text and label, then one correction a line, "
    "tab-separated.  [default: TEXT and LABEL, else stdin]",
)
@json_option
@click.pass_context
def correct_command(
    ctx: click.Context,
    name: str,
    text: str | None,
    label: str | None,
    source: Path | None,
    as_json: bool,
) -> None:
    """Keep on this device that TEXT should have been answered with LABEL by the adapter NAME.

    Nothing leaves: it waits, sealed, until `sotto customize NAME --add --corrections` releases it.
    A text that was corrected before gets the new label. A TEXT of "-" takes one text a line from
    stdin, all of LABEL. Prefer a file or stdin to TEXT: other users of the machine can see a
    command's arguments while it runs.
    """
    config = load_config(ctx)
    kept, waiting = 0, 0
    corrections = [*_read(text, label, source)]
    with reach(config) as client:
        for part in _parts(corrections):
            request = adapters.KeepCorrectionsRequest(adapter=name, corrections=part)
            try:
                waiting = client.adapters.KeepCorrections(request).waiting
            except SottovoceError as error:
                raise (numbered(error, f"after {kept} that are kept") if kept else error) from error
            kept += len(part)
    if as_json:
        print_json({"adapter": name, "kept": kept, "waiting": waiting})
    else:
        teach = f"`sotto customize {name} --add --corrections` teaches them"
        click.echo(f"kept; {waiting:,} correction{'s' * (waiting != 1)} of {name} wait: {teach}")


def _read(
    text: str | None, label: str | None, source: Path | None
) -> Iterator[adapters.Correction]:
    if text is None:
        for row in read_table(source):
            yield adapters.Correction(text=row.text, label=row.label)
        return
    if source is not None:
        raise InvalidInput("both TEXT and --input are given", fix="give one", subject="text")
    if label is None:
        raise InvalidInput(
            "a text without its label",
            fix="give TEXT and LABEL, or a table (--input)",
            subject="label",
        )
    if text != "-":
        yield adapters.Correction(text=text, label=label)
        return
    for line in read_lines(None, "reading"):
        if line.text.strip():
            yield adapters.Correction(text=line.text.rstrip("\r"), label=label)


def _parts(corrections: list[adapters.Correction]) -> Iterator[list[adapters.Correction]]:
    """Split corrections into messages of at most `_LARGEST` bytes, if possible one."""
    part: list[adapters.Correction] = []
    size = 0
    for each in corrections:
        if part and size + each.ByteSize() > _LARGEST:
            yield part
            part, size = [], 0
        part.append(each)
        size += each.ByteSize()
    yield part
