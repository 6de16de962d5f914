"""``sotto customize``, ``learn`` and ``distill``: how adapters and labels are made."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.progress import Progress

from sottovoce.core.errors import ConfigError, InvalidInput, NotReady
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    print_json,
    progress_bar,
)
from sottovoce.core.platform.files import atomic
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import MOST_SEQUENCES
from sottovoce.core.rpc.training_settings import MOST
from sottovoce.edge.cli import common as told
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, parts, remote, request_id
from sottovoce.edge.cli.common import (
    FOR_EITHER,
    PATH,
    interruptible,
    load_config,
    privacy_options,
    read_lines,
    read_table,
    say,
)
from sottovoce.edge.cli.conversations import asking
from sottovoce.edge.client.openai_client import OpenAIClient
from sottovoce.edge.config import Config
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks.customize import Learner
from sottovoce.edge.tasks.distill import Ballots, Distilled, Distiller, Wanted
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.privatize import resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

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
    type=PATH,
    help="Table: a header with the columns text and label, then one example a line, tab-separated. "
    "With input and output instead, the cloud's decoder learns to write the outputs.",
)
@privacy_options
@_training_options
@click.option(
    "--plain-sequences",
    type=click.IntRange(0, MOST_SEQUENCES),
    default=0,
    help="Number of sequences of plain tokens to draw once; each example takes one.  "
    "[default: one for each example]",
)
@click.option(
    "--plain-vocabulary",
    type=click.IntRange(0, 65_536),
    default=0,
    help="Number of the commonest words to draw from.  [default: 7630]",
)
@click.option(
    "--plain-sampling",
    type=click.Choice(list(_SAMPLING)),
    default=None,
    help="Draw words uniformly, or by their frequency in public text.  [default: uniform]",
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
    help="Allow --dp-epsilon with fewer than 1,000 examples, which costs much accuracy.",
)
@click.option(
    "--pate",
    "public",
    metavar="PUBLIC",
    type=PATH,
    help="With --dp-epsilon, learn by PATE: from public texts without labels in this file, one a "
    "line. Teachers, each trained on a share of the input, vote on the labels of these texts.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace an adapter of this name by a new one; `sotto rollback` brings the old one back.",
)
@click.option(
    "--add",
    is_flag=True,
    help="Train the adapter further, with these examples added to its earlier examples, from this "
    "device and from others that share it.",
)
@click.option(
    "--corrections",
    is_flag=True,
    help="With --add, add the corrections from `sotto correct`; --input is then optional. They are "
    "released as other examples are, and deleted here once training succeeds.",
)
@click.option(
    "--watch/--no-watch", default=True, show_default=True, help="Wait until training ends."
)
@click.pass_context
def customize_command(
    ctx: click.Context,
    /,
    adapter: str,
    source: Path | None,
    privacy: agent.PrivacyOptions,
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
    go on without this command: Ctrl-C then only stops the waiting. The same command again waits for
    the same training, and starts no second one.
    """
    if source is None and not corrections:
        raise click.MissingParameter(ctx=ctx, param_type="option", param_hint="'--input'")
    config = load_config()
    settings = agent.CustomizationSettings(
        adapter=adapter,
        privacy=privacy,
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
    type=PATH,
    required=True,
    help="Table: a header with the columns text and label, then one example a line, tab-separated.",
)
@click.option("--replace", is_flag=True, help="Replace an adapter of this name by a new one.")
def learn_command(adapter: str, source: Path, replace: bool, as_json: bool) -> None:
    """Train the adapter NAME on this device alone: nothing is released, sent or charged.

    Trains a linear head over the bundle's encoder (`sotto pull --encoder`, or pip's extra
    `en-encoder`). `sotto predict` uses it like an adapter from the cloud. Adapters from the cloud
    learn more from the same number of examples.
    """
    examples = read_table(source)
    if_interrupted(f"{adapter} has not changed", "run the same command again")
    with parts(load_config()) as device, progress_bar() as bar:
        task = bar.add_task("reading", total=len(examples), note="")
        learner = Learner(device.store, device.outbox, device.home, device.home.folder)
        record = learner.learn(
            adapter,
            examples,
            replace=replace,
            progress=lambda done: bar.update(task, completed=done),
        )
    say(
        views.customization(record),
        f"{adapter} has learnt from {record.examples} examples, on this device alone",
    )


@click.command("distill", cls=Command)
@click.option(
    "--input",
    "source",
    type=PATH,
    required=True,
    help="Table: a header with the columns text and label, then one example a line, tab-separated.",
)
@click.option(
    "--public",
    type=PATH,
    required=True,
    help="Public texts to label, one a line.",
)
@click.option(
    "--output",
    type=PATH,
    required=True,
    help="Table to write: the public texts that got a label, each with its label.",
)
@click.option(
    "--dp-epsilon",
    type=click.FloatRange(0.0, MOST["dp_epsilon"], min_open=True),
    required=True,
    help="Bound on what the table may reveal about any one example: 1 is strong, 8 weak.",
)
@click.option(
    "--dp-delta",
    type=click.FloatRange(0.0, MOST["dp_delta"]),
    default=0.0,
    help="[default: 1e-5, or 0.1 / number of examples if less]",
)
@click.option("--dp-few-examples", is_flag=True, help="Vote with fewer than 1,000 examples too.")
@click.option("--upstream", default="", help="URL of a server with OpenAI's API.")
@click.option("--model", default="", help="The server's name for the model.  [default: configured]")
@click.option(
    "--shots",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Approximate number of examples in a teacher's prompt. Fewer examples make more teachers, "
    "and more calls.",
)
@click.option(
    "--texts",
    type=click.IntRange(min=32),
    default=100,
    show_default=True,
    help="Public texts to ask about, at most; at most half get a label.",
)
@click.option(
    "--at-once", type=click.IntRange(1, 64), default=4, show_default=True, help="Calls at once."
)
@click.option("--replace", is_flag=True, help="Overwrite an existing output file.")
@privacy_options
def distill_command(
    source: Path,
    public: Path,
    output: Path,
    dp_epsilon: float,
    dp_delta: float,
    dp_few_examples: bool,
    upstream: str,
    model: str,
    shots: int,
    texts: int,
    at_once: int,
    replace: bool,
    privacy: agent.PrivacyOptions,
    as_json: bool,
) -> None:
    """Label public texts by prompts with your examples, so that the labels reveal next to nothing
    about any one example (PromptPATE).

    Each teacher is a prompt with a few of the examples. For each teacher, a language model names
    the likeliest label, and only a noisy vote of all teachers is written down. You may give the
    table away, show it to a model as examples, or train on it (`sotto customize --input`). The
    prompts are privatised and charged as conversations are; labels leave as you wrote them. If the
    command is interrupted, run it again: it goes on where it stopped.
    """
    config = _with_upstream(load_config(), upstream)
    _check_place(output, (source, public), replace=replace)
    examples, asked = read_table(source), _texts(public)
    with parts(config) as device, progress_bar() as bar:
        model = model or config.chat.model
        device.writer.check(model)
        wanted = Wanted(
            epsilon=dp_epsilon,
            delta=dp_delta,
            shots=shots,
            texts=texts,
            model=model or "default",
            setting=resolve(
                privacy, dataclasses.replace(device.default, policy=config.chat.policy)
            ),
            at_once=at_once,
            few=dp_few_examples,
        )
        task = bar.add_task("asking", total=None, note="")
        if_interrupted("answers so far are kept", "run the same command again to go on")

        def tell(answers: Sequence[tuple[str, str]]) -> None:
            lines = ["text\tlabel", *("\t".join(each) for each in answers)]
            with atomic(output) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())

        found = _distiller(device, config).distill(
            examples,
            asked,
            wanted,
            tell,
            lambda done, of: bar.update(task, completed=done, total=of),
            lambda problem: click.echo(f"note: {problem}", err=True),
        )
    _show(found, output, as_json=as_json)


def _with_upstream(config: Config, upstream: str) -> Config:
    config = asking(config, upstream)
    if not config.chat.upstream:
        raise ConfigError(
            "no server to ask: our cloud does not say how likely it holds a word to be",
            fix="name one that speaks as OpenAI's do: --upstream http://127.0.0.1:8080/v1",
            subject="chat.upstream",
        )
    return config


def _check_place(output: Path, read: Sequence[Path], *, replace: bool) -> None:
    """Refuse an unwritable output, or an input as output, before any charge."""
    if any(each.exists() and output.exists() and output.samefile(each) for each in read):
        raise InvalidInput(f"{output} is what is read", fix="name another file", subject="output")
    if output.exists() and not replace:
        raise InvalidInput(
            f"{output} exists", fix="name another file, or --replace", subject="output"
        )
    if output.is_dir() or not os.access(output.parent, os.W_OK):
        raise ConfigError(
            f"cannot write {output}", fix="name a file in a folder that you may write to"
        )


def _texts(public: Path) -> list[str]:
    lines = (" ".join(line.text.split()) for line in read_lines(public, "reading"))
    return [line for line in lines if line]


def _distiller(device: Parts, config: Config) -> Distiller:
    return Distiller(
        device.engine,
        device.store,
        device.ledger,
        device.releases,
        Ballots(config.agent.state, device.store.seal),
        OpenAIClient(config.chat),
    )


def _show(found: Distilled, output: Path, *, as_json: bool) -> None:
    plan, of = found.plan, found.plan.check.steps
    if as_json:
        told = {"output": str(output), "texts": of, "answered": found.answered}
        print_json({**told, **plan.to_dict(), "unit": "one example added or removed"})
        return
    click.echo(f"{found.answered} of {of} public texts were answered: {output}")
    click.echo(
        f"It tells of any one of your {plan.records:,} examples no more than epsilon "
        f"{plan.epsilon:.3g} at delta {plan.budget.delta:.1g} does, by a vote of "
        f"{plan.teachers} teachers."
    )
