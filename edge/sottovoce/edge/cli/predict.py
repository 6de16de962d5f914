"""``sotto predict``."""

from __future__ import annotations

from pathlib import Path

import click

from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import backend
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.lines import answered, read_texts, text_argument
from sottovoce.edge.tasks.answer_location import who_answers
from sottovoce.v1 import edge_agent_pb2 as agent

__all__ = ["command"]

_WHERE = {
    None: agent.WHERE_UNSPECIFIED,
    "device": agent.WHERE_DEVICE,
    "cloud": agent.WHERE_CLOUD,
    "auto": agent.WHERE_AUTO,
}


@click.command("predict", cls=Command)
@click.argument("adapter")
@text_argument
@click.option(
    "--where",
    type=click.Choice(["device", "cloud", "auto"]),
    help="Who answers: the device from the text itself, of which nothing leaves, the cloud from the"
    " released text, or the device if it can.  [default: configured]",
)
@privacy_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str,
    text: str | None,
    source: Path | None,
    where: str | None,
    level: str,
    mechanism: str,
    policy: str,
    as_json: bool,
) -> None:
    """Have ADAPTER classify TEXT, or one text a line.

    A device that fetched the adapter (`sotto fetch`) answers itself: nothing is released, sent or
    charged. Otherwise each text is privatised first, by default as the adapter was trained, and the
    cloud answers. Prefer --input or stdin to TEXT: other
    users of the machine can see a command's arguments while it runs.
    """
    options = agent.PrivacyOptions(level=level, mechanism=mechanism, policy=policy)
    config = load_config(ctx)
    asked = _WHERE[where]
    if config.predict.where == "device":  # in spite of the running agent's configuration
        asked = who_answers(asked, config.predict.where)
    with backend(config) as predictor:
        for number, line in enumerate(read_texts(text, source), 1):
            request = agent.PredictRequest(
                text=line.text, adapter=adapter, privacy=options, where=asked
            )
            try:
                response = predictor.predict(request)
            except SottovoceError as error:
                raise (numbered(error, line.place) if line.place else error) from error
            if as_json:
                print_json(views.prediction(response))
            else:
                click.echo(f"{response.label}\t{response.scores[0].score:.3f}")
            answered(number)
