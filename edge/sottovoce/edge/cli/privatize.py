"""``sotto privatize``."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.system.console import Command, json_option
from sottovoce.core.system.files import atomic
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Backend, backend
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.lines import Line, read_lines
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("privatize", cls=Command)
@privacy_options
@click.option("--input", "source", type=click.Path(path_type=Path), help="File.  [default: stdin]")
@click.option(
    "--output", "target", type=click.Path(path_type=Path), help="File.  [default: stdout]"
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    level: str,
    mechanism: str,
    policy: str,
    source: Path | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Replace the words of texts, one text a line; contacts no cloud.

    Uses the running agent, or the bundle and the ledger directly where none is running. The same
    text gives the same release each time. Blank lines stay blank. --output appears complete or not
    at all.
    """
    options = agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy)
    config = load_config(ctx)
    output = nullcontext(sys.stdout.buffer) if target is None else atomic(target)
    with backend(config) as privatizer, output as out:
        for line in read_lines(source):
            out.write(_released(privatizer, line, options, as_json=as_json).encode() + b"\n")
            out.flush()


def _released(
    privatizer: Backend, line: Line, options: agent.PrivacyOptions, *, as_json: bool
) -> str:
    if line.text and not line.text.isspace():
        request = agent.PrivatizeRequest(text=line.text, privacy=options, words=as_json)
        try:
            response = privatizer.privatize(request)
        except SottovoceError as error:
            raise numbered(error, line.place) from error
    else:
        response = agent.PrivatizeResponse(text=line.text)  # nothing to protect
    if as_json:
        return json.dumps(views.release(response), ensure_ascii=False)
    return response.text
