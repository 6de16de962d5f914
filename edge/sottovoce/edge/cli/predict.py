"""``sotto predict``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.system.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.lines import Line, read_lines
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]


@click.command("predict", cls=Command)
@click.argument("adapter")
@click.argument("text", required=False)
@click.option(
    "--input", "source", type=click.Path(path_type=Path), help="File.  [default: TEXT, else stdin]"
)
@privacy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str,
    text: str | None,
    source: Path | None,
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Have ADAPTER classify TEXT, or one text a line; each is privatised first.

    The default privacy is what the adapter was trained with. Prefer --input or stdin to TEXT: other
    users of the machine can see a command's arguments while it runs.
    """
    if text is not None and source is not None:
        raise InvalidInput("both TEXT and --input are given", fix="give one", subject="text")
    options = agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy)
    config = load_config(ctx)
    with backend(config) as predictor:
        for line in _lines(text, source):
            request = agent.PredictRequest(text=line.text, adapter=adapter, privacy=options)
            try:
                response = predictor.predict(request)
            except SottovoceError as error:
                raise (numbered(error, line.place) if line.place else error) from error
            if as_json:
                print_json(views.prediction(response))
            else:
                click.echo(f"{response.label}\t{response.scores[0].score:.3f}")


def _lines(text: str | None, source: Path | None) -> Iterator[Line]:
    if text is not None:
        return iter([Line(text, "")])
    return read_lines(source)
