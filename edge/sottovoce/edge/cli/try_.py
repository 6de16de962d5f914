"""``sotto try``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sottovoce.core.bundle.levels import strongest
from sottovoce.core.errors import NotFound, SottovoceError
from sottovoce.core.privacy.policies import POLICIES, Treatment, find
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.system.console import Command, json_option, plain, print_json, print_table
from sottovoce.edge.cli.common import load_config, numbered, privacy_options
from sottovoce.edge.cli.lines import read_texts, text_argument
from sottovoce.edge.tasks.engine import Engine, OpenBundle

__all__ = ["command"]

_MOST_DRAWS = 20
_COLOURS = {Treatment.NOISE: "yellow", Treatment.DRAW: "cyan"}


@click.command("try", cls=Command)
@text_argument
@privacy_options
@click.option(
    "--draws",
    type=click.IntRange(1, _MOST_DRAWS),
    default=1,
    show_default=True,
    help="How often to draw each.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    text: str | None,
    source: Path | None,
    level: str,
    mechanism: str,
    policy: str,
    draws: int,
    as_json: bool,
) -> None:
    """Show TEXT, or one text a line, under every level and policy side by side.

    With noise drawn for this screen alone: nothing is sent and nothing is charged, and what is
    released afterwards is another draw. Yellow got noise, and is underlined where it came out as
    itself; blue gave way to a random one of its kind; the rest leaves as typed.
    """
    config = load_config(ctx)
    opened = Engine.configured(config.bundle, config.privacy, config.tagger).current()
    mechanism = mechanism or config.privacy.mechanism
    settings = [
        Setting(each, mechanism, find(name).name)
        for name in ([policy] if policy else POLICIES)
        for each in ([level] if level else _levels(opened, mechanism))
    ]
    for line in read_texts(text, source, "trying"):
        try:
            tried = [(s, _drawn(opened, line.text, s, draws)) for s in settings]
        except SottovoceError as error:
            raise (numbered(error, line.place) if line.place else error) from error
        if as_json:
            print_json({"text": line.text, "tried": [_view(opened, *each) for each in tried]})
        else:
            _show(opened, line.text, tried)


def _levels(opened: OpenBundle, mechanism: str) -> list[str]:
    levels = opened.bundle.manifest.calibration.get(mechanism, {})
    if not levels:
        known = ", ".join(sorted(opened.bundle.manifest.calibration))
        raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
    return sorted(levels, key=lambda name: levels[name].eta)


def _drawn(
    opened: OpenBundle, text: str, setting: Setting, draws: int
) -> list[Release] | SottovoceError:
    """Releases with fresh noise; or why the owner's limits allow none."""
    try:
        opened.privatizer.mechanism(setting)
    except SottovoceError as error:
        return error
    return [opened.privatizer.release(text, setting) for _ in range(draws)]


def _guessed(opened: OpenBundle, setting: Setting) -> float:
    """The share of words with noise that the strongest attacker guesses, as was measured."""
    level = opened.bundle.manifest.level(setting.mechanism, setting.level)
    return float(strongest(level.map_attack))


def _view(
    opened: OpenBundle, setting: Setting, drawn: list[Release] | SottovoceError
) -> dict[str, Any]:
    view: dict[str, Any] = {
        "level": setting.level,
        "mechanism": setting.mechanism,
        "policy": setting.policy,
    }
    if isinstance(drawn, SottovoceError):
        return view | {"refused": drawn.problem}
    return view | {
        "eta": drawn[0].eta,
        "guessed": round(_guessed(opened, setting), 4),
        "charge": drawn[0].charge,
        "releases": [release.text for release in drawn],
    }


def _show(
    opened: OpenBundle,
    text: str,
    tried: list[tuple[Setting, list[Release] | SottovoceError]],
) -> None:
    click.echo(f"{'typed':10}{plain(text, line=True)}")
    policy, rows = "", []
    for setting, drawn in tried:
        if setting.policy != policy:
            policy = setting.policy
            click.echo(f"\n{click.style(policy, bold=True)}: {POLICIES[policy].about}")
        if isinstance(drawn, SottovoceError):
            click.echo(f"{setting.level:10}not allowed here: {drawn.problem}")
            continue
        for number, release in enumerate(drawn):
            click.echo(f"{'' if number else setting.level:10}{''.join(_coloured(release))}")
        guessed = _guessed(opened, setting)
        rows.append(
            (
                policy,
                setting.level,
                f"{drawn[0].eta:.4g}",
                f"{guessed:.0%}",
                f"{drawn[0].charge:.4g}",
            )
        )
    if rows:
        click.echo()
        print_table(("policy", "level", "eta", "guessed", "costs"), rows)
        click.echo(
            "\nguessed: of words with noise, by the strongest attacker we have, on the worst kind\n"
            "of text that was tried (`sotto calibrate`); costs: what the ledger is charged for it."
        )


def _coloured(release: Release) -> Iterator[str]:
    end = 0
    for word in release.each_word():
        yield plain(release.text[end : word.released_start], line=True)
        end = word.released_end
        shown = plain(release.text[word.released_start : end], line=True)
        kept = word.protected and not word.replaced
        colour = _COLOURS.get(word.treatment)
        yield click.style(shown, fg=colour, underline=kept or None) if colour else shown
    yield plain(release.text[end:], line=True)
