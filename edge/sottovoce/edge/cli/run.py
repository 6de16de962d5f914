"""``sotto run``."""

from __future__ import annotations

import os

import click

from sottovoce.core.errors import InvalidInput, NotFound, NotReady
from sottovoce.core.platform.console import Command, json_option, print_json
from sottovoce.edge.cli.client import remote
from sottovoce.edge.cli.common import load_config
from sottovoce.edge.daemon.doorway.gate import read_key

__all__ = ["command"]

_HERE = "127.0.0.1,localhost,::1"


@click.command(
    "run",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("program", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@json_option
@click.pass_context
def command(
    ctx: click.Context, program: str | None, arguments: tuple[str, ...], as_json: bool
) -> None:
    """Run PROGRAM as an OpenAI client of the running agent.

    It finds the doorway's address and key in OPENAI_BASE_URL (and OPENAI_API_BASE) and
    OPENAI_API_KEY, and takes this command's place, exit code and all. No proxy is to be asked for
    this machine: what programs send to the doorway is clear text. With --json, one object says what
    it would find, key and all, and nothing is run.
    """
    if program is None and not as_json:
        raise InvalidInput("no program is named", fix="give one, or --json", subject="program")
    config = load_config(ctx)
    with remote(config) as agent:
        doorway = agent.status().doorway
    if not doorway:
        raise NotReady(
            "the running agent has no doorway",
            fix="start it with `sotto serve --doorway 127.0.0.1:8472`",
            subject="doorway",
        )
    url = f"http://{doorway}/v1"
    told = {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_BASE": url,
        "OPENAI_API_KEY": read_key(config.agent.state),
    }
    for name in ("NO_PROXY", "no_proxy"):
        own = os.environ.get(name)
        # "*" means all hosts only if it stands alone.
        told[name] = own if own == "*" else ",".join(filter(None, (own, _HERE)))
    if as_json or program is None:
        print_json(told)
        return
    try:
        os.execvpe(program, [program, *arguments], os.environ | told)
    except OSError as error:
        raise NotFound(
            f"cannot run {program}: {error.strerror}", fix="check its name", subject="program"
        ) from error
