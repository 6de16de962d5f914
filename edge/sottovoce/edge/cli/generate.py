"""``sotto generate``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option
from sottovoce.edge.cli import answers
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.interruptible import interruptible
from sottovoce.edge.cli.lines import answered, read_texts, text_argument
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["command"]


@click.command("generate", cls=Command)
@click.argument("name")
@text_argument
@answers.sampling_options
@privacy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    text: str | None,
    source: Path | None,
    max_tokens: int,
    temperature: float | None,
    seed: int | None,
    stops: tuple[str, ...],
    upstream: str,
    shown: bool,
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Have the adapter NAME write on from TEXT, or from one text a line; each is privatised first.

    The default privacy is what the adapter was trained with. With --upstream, NAME is what that
    server calls a model. Prefer --input or stdin to TEXT: other users of the machine can see a
    command's arguments while it runs.
    """
    asked = chats.CompleteRequest(
        model=name,
        privacy=agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
        sampling=answers.sampling(max_tokens, temperature, seed),
        stops=stops,
    )
    lines = read_texts(text, source)
    with answers.answering(load_config(ctx), upstream) as device:
        for number, line in enumerate(lines, 1):
            asked.text = line.text
            try:
                events = interruptible(partial(device.complete, asked))
                answers.show(events, shown=shown, as_json=as_json)
            except SottovoceError as error:
                raise (numbered(error, line.place) if line.place else error) from error
            answered(number)
