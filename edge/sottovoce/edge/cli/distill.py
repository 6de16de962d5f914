"""``sotto distill``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import click

from sottovoce.core.errors import ConfigError, InvalidInput
from sottovoce.core.platform.console import (
    Command,
    if_interrupted,
    json_option,
    print_json,
    progress_bar,
)
from sottovoce.core.platform.files import atomic
from sottovoce.core.rpc.training_settings import MOST
from sottovoce.edge.cli.client import parts
from sottovoce.edge.cli.common import load_config, privacy_options, read_lines, read_table
from sottovoce.edge.cli.conversations import asking
from sottovoce.edge.client.openai_client import OpenAIClient
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.distill import Ballots, Distilled, Distiller, Wanted
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.privatize import resolve
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("distill", cls=Command)
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Table: a header with the columns text and label, then one example a line, tab-separated.",
)
@click.option(
    "--public",
    type=click.Path(path_type=Path),
    required=True,
    help="Texts that are nobody's secret, one a line, to be labelled.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Table to write: those of them that were answered, each with its label.",
)
@click.option(
    "--dp-epsilon",
    type=click.FloatRange(0.0, MOST["dp_epsilon"], min_open=True),
    required=True,
    help="What the table may tell of any one example: 1 is strong, 8 weak.",
)
@click.option(
    "--dp-delta",
    type=click.FloatRange(0.0, MOST["dp_delta"]),
    default=0.0,
    help="[default: 1e-5, or a tenth of one in the number of examples]",
)
@click.option("--dp-few-examples", is_flag=True, help="Vote with fewer than 1,000 examples too.")
@click.option("--upstream", default="", help="Server that speaks as OpenAI's do: its URL.")
@click.option("--model", default="", help="What the server calls it.  [default: configured]")
@click.option(
    "--shots",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Examples in a teacher's prompt, about. Fewer make more teachers, and more calls.",
)
@click.option(
    "--texts",
    type=click.IntRange(min=32),
    default=100,
    show_default=True,
    help="Public texts to ask about, at most; half of them are answered at most.",
)
@click.option("--at-once", type=click.IntRange(1, 64), default=4, show_default=True, help="Calls.")
@click.option("--replace", is_flag=True, help="Write over the output where there is one.")
@privacy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
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
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Have prompts with your examples label public texts, so that the labels tell next to nothing
    of any one example (PromptPATE).

    Each teacher is a prompt with a few of the examples; a language model says which label it holds
    for the likeliest, and only a noisy vote of all teachers is written down. The table may be given
    away, shown to a model as examples, or trained on (`sotto customize --input`). What the model
    sees is privatised and charged as conversations are; labels leave as you wrote them. A command
    that was cut off goes on where it was when it is called again.
    """
    config = _with_upstream(load_config(ctx), upstream)
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
                agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
                dataclasses.replace(device.default, policy=config.chat.policy),
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
