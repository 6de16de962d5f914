"""Options that several commands take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.cloud.config import STORE_VARIABLE, ServerLimits
from sottovoce.cloud.store import check_objects, open_database
from sottovoce.cloud.store.database import Database
from sottovoce.core.platform.console import folder_option, print_json
from sottovoce.core.rpc.telemetry import LOG_FORMATS

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class _Duration(click.ParamType[float]):
    """Seconds, parsed from a duration."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):  # a default
            return value
        written = re.fullmatch(r"([1-9]\d{0,5})([smhd])", str(value))
        if written is None:
            self.fail("write it like 90d, 12h, 30m or 45s", param, ctx)
        return float(written[1]) * _UNITS[written[2]]


DURATION: Final = _Duration()


def number_option(name: str, default: int, text: str, **more: Any) -> Callable[[Any], Any]:
    """Return an option for a whole number above 0."""
    kind = click.IntRange(min=1)
    return click.option(name, type=kind, default=default, show_default=True, help=text, **more)


state_option = folder_option(
    "--state",
    "sottovoce-state",
    "Folder of the server's state.",
    envvar="SOTTO_CLOUD_STATE",
    show_envvar=True,
)

store_option = click.option(
    "--store",
    default="",
    envvar=STORE_VARIABLE,
    show_envvar=True,
    help="postgresql://... for jobs and tenants, shared by many; a file in --state by default.",
)

objects_option = click.option(
    "--objects",
    default="",
    envvar="SOTTO_CLOUD_OBJECTS",
    show_envvar=True,
    metavar="URL",
    help="file:///folder or s3://bucket/prefix for adapters, checkpoints and published bundles, "
    "shared by many; in --state by default.",
)

key_file_option = click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SOTTO_CLOUD_KEY_FILE",
    show_envvar=True,
    help="Master key that encrypts the keys of examples, the same for all machines; created if "
    "missing.  [default: master.key in --state]",
)

backbone_option = click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model to train and predict with: a folder or a Hugging Face name.",
)

decoder_option = click.option(
    "--decoder",
    default="",
    metavar="MODEL",
    help="Model for generating text, to serve and to train: a folder or a Hugging Face name "
    "of a causal language model.  [default: none]",
)

BUNDLE_VARIABLE: Final = "SOTTO_CLOUD_BUNDLE"

metrics_option = click.option(
    "--metrics",
    default="",
    metavar="HOST:PORT",
    help="Serve Prometheus metrics there, in plaintext; off by default.",
)

log_option = click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=LOG_FORMATS[0],
    show_default=True,
    envvar="SOTTO_CLOUD_LOG_FORMAT",
    show_envvar=True,
    help="Format of messages on standard error: sentences or JSON lines, without text of users.",
)

trace_option = click.option(
    "--trace",
    default="",
    envvar="SOTTO_CLOUD_TRACE",
    show_envvar=True,
    metavar="URL",
    help="OpenTelemetry collector for spans of calls and jobs, without text, such as "
    "http://127.0.0.1:4317; off by default.",
)

health_option = click.option(
    "--health",
    multiple=True,
    metavar="HOST:PORT",
    help="A server, replica, front or balancer to check; may be given again.",
)

figures_option = click.option(
    "--metrics",
    multiple=True,
    metavar="HOST:PORT",
    help="The --metrics address of a process, to read its figures; may be given again.",
)

tls_ca_option = click.option(
    "--tls-ca",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="PEM file of trusted certificates; without it, calls are in plaintext.",
)


def say(as_json: bool, facts: Mapping[str, Any], sentence: str) -> None:
    """Print a command's result on standard output: facts as JSON, or a sentence."""
    if as_json:
        print_json(facts)
    else:
        click.echo(sentence)


def on_database(*, objects: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Give a command the database of an existing cloud as its first argument.

    Adds the options that name the state, and the objects if the command needs them.
    """

    def take(command: Callable[..., None]) -> Any:
        @wraps(command)
        def run(state: Path, store: str, **given: Any) -> None:
            with opened(state, store, given.pop("objects", None)) as database:
                command(database, **given)

        return taking(state_option, store_option, *([objects_option] if objects else []))(run)

    return take


def taking(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds several options, in this order."""

    def take(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return take


@contextmanager
def opened(
    state: Path, store: str, objects: str | None = None, *, check: bool = True
) -> Iterator[Database]:
    """Open an existing cloud's database for one command.

    The objects are opened too, if ``objects`` is given; "" means those in ``state``. They are
    checked to be the database's, unless ``check`` is false.
    """
    with closing(open_database(state, store, objects or "", create=False)) as database:
        if objects is not None and check:
            check_objects(database, bind=False)
        yield database


def limit_option(name: str, text: str) -> Callable[[Any], Any]:
    """Return an option for one of the limits that hold for every tenant."""
    return number_option(f"--limit-{name.replace('_', '-')}", getattr(ServerLimits(), name), text)
