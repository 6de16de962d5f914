"""``sotto privatize``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option
from sottovoce.core.platform.files import atomic
from sottovoce.core.privacy.policies import PUNCTUATION
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Backend, backend
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.lines import Line, answered, read_texts, text_argument
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("privatize", cls=Command)
@text_argument
@privacy_options
@click.option(
    "--output", "target", type=click.Path(path_type=Path), help="File.  [default: stdout]"
)
@click.option(
    "--session",
    default="",
    help="The conversation that the texts belong to: a name has one surrogate throughout."
    "  [default: throughout each text]",
)
@click.option("--words", is_flag=True, help="Also show what became of each word.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    text: str | None,
    level: str,
    mechanism: str,
    policy: str,
    source: Path | None,
    target: Path | None,
    session: str,
    words: bool,
    as_json: bool,
) -> None:
    """Replace the words of TEXT, or of one text a line; contacts no cloud.

    Uses the running agent, or the bundle and the ledger directly where none is running. The same
    text gives the same release each time. Blank lines stay blank. --output appears complete or not
    at all. Prefer --input or stdin to TEXT: other users of the machine can see a command's
    arguments while it runs.
    """
    asked = agent.PrivatizeRequest(
        privacy=agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy),
        words=words or as_json,
        session=session,
    )
    config = load_config(ctx)
    output = nullcontext(sys.stdout.buffer) if target is None else atomic(target)
    with backend(config) as privatizer, output as out:
        for number, line in enumerate(read_texts(text, source)):
            answered(number, target)
            response = _released(privatizer, line, asked)
            if as_json:
                shown = json.dumps(views.release(response), ensure_ascii=False)
            else:
                shown = "\n".join((response.text, *_each_word(line.text, response)))
            out.write(shown.encode() + b"\n")
            out.flush()


def _released(
    privatizer: Backend, line: Line, asked: agent.PrivatizeRequest
) -> agent.PrivatizeResponse:
    if not line.text or line.text.isspace():
        return agent.PrivatizeResponse(text=line.text)  # nothing to protect
    asked.text = line.text
    try:
        return privatizer.privatize(asked)
    except SottovoceError as error:
        raise (numbered(error, line.place) if line.place else error) from error


def _each_word(text: str, response: agent.PrivatizeResponse) -> Iterator[str]:
    """Yield the treatment of each word except punctuation; nothing without --words."""
    for word in response.words:
        if word.tag != PUNCTUATION:
            typed = text[word.start : word.end]
            released = response.text[word.released_start : word.released_end]
            treatment = views.treatment_name(word).lower()
            yield f"    {typed:20}  {released:20}  {treatment:5}  {word.tag}"
