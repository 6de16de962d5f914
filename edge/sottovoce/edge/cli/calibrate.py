"""``sotto calibrate``."""

from __future__ import annotations

import math
from dataclasses import asdict, fields

import click
import numpy as np

from sottovoce.edge.bundle import Bundle, Level
from sottovoce.edge.cli.common import Command, json_option, load_config, print_json
from sottovoce.edge.errors import InvalidInput, NotFound

__all__ = ["command", "interpolate"]

_EXPLANATION = """\
replaced: share of protected words that come out as another word, on everyday text;
          rare: the same for words outside the 5,000 commonest (names, places, diagnoses).
attack:   how often the strongest attacker we could build guesses the word from the noisy
          vector itself, rare: from rare words alone; word: from the released word.
A smaller eta means more noise: more words replaced, fewer guessed, and less left to learn from.
A word is never safe because it was replaced: a likely replacement can be guessed back.
"""


@click.command("calibrate", cls=Command)
@click.option("--mechanism", default="", help="Mechanism.  [default: configured]")
@click.option(
    "--target-replaced", type=float, help="Find the eta at which this share is replaced (0 to 1)."
)
@click.option(
    "--target-attack", type=float, help="Find the eta at which the attack succeeds so often."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    mechanism: str,
    target_replaced: float | None,
    target_attack: float | None,
    as_json: bool,
) -> None:
    """Explain the protection levels of the bundle; measured when it was built.

    With a target, the eta that meets it is interpolated from the bundle's curve, and the named
    level nearest to it is told.
    """
    if target_replaced is not None and target_attack is not None:
        raise InvalidInput("two targets are given", fix="give one", subject="target")
    config = load_config(ctx)
    bundle = Bundle.open(config.bundle.current.resolve(), backbone=config.bundle.backbone or None)
    mechanism = mechanism or config.privacy.mechanism
    levels = bundle.manifest.calibration.get(mechanism)
    if not levels:
        known = ", ".join(sorted(bundle.manifest.calibration))
        raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
    found = nearest = None
    if target_replaced is not None or target_attack is not None:
        measure = "map_attack" if target_replaced is None else "replaced"
        target = target_attack if target_replaced is None else target_replaced
        found = interpolate(bundle.manifest.curve[mechanism], measure, target or 0.0)
        nearest = min(levels, key=lambda name: abs(math.log(levels[name].eta / found.eta)))
    if as_json:
        print_json(
            {
                "bundle_id": bundle.id,
                "mechanism": mechanism,
                "default_level": config.privacy.level,
                "levels": {name: asdict(level) for name, level in levels.items()},
                "target": asdict(found) if found else None,
                "nearest_level": nearest,
            }
        )
        return
    click.echo(f"{mechanism}, bundle {bundle.id} ({bundle.manifest.backbone.name})\n")
    click.echo("level          eta  replaced   rare   attack   rare   word")
    for name, level in sorted(levels.items(), key=lambda item: item[1].eta):
        click.echo(_row(name, level))
    if found:
        click.echo(_row("target", found))
    click.echo(f"\n{_EXPLANATION}", nl=False)
    if nearest:
        click.echo(f'The level nearest to the target is "{nearest}".')


def interpolate(curve: tuple[Level, ...], measure: str, target: float) -> Level:
    """The point where `measure` ("replaced" or "map_attack") is `target`, along log(eta).

    Raises:
        InvalidInput: the curve does not reach the target; the fix gives its range.
    """
    points = sorted(curve, key=lambda point: getattr(point, measure))
    reached = np.array([getattr(point, measure) for point in points])
    logs = np.log([point.eta for point in points])
    if not points or not reached[0] <= target <= reached[-1]:
        span = f"{reached[0]:.2f} to {reached[-1]:.2f}" if points else "another bundle"
        raise InvalidInput(
            "the target is outside what was measured", fix=f"use {span}", subject="target"
        )
    found = float(np.interp(target, reached, logs))
    by_eta = np.argsort(logs)
    return Level(
        **{
            field.name: float(
                np.interp(
                    found,
                    logs[by_eta],
                    np.array([getattr(point, field.name) for point in points])[by_eta],
                )
            )
            for field in fields(Level)
            if field.name != "eta"
        },
        eta=math.exp(found),
    )


def _row(name: str, level: Level) -> str:
    shares = (
        f"{level.replaced:9.0%} {level.replaced_rare:6.0%} "
        f"{level.map_attack:8.0%} {level.map_attack_rare:6.0%} {level.map_attack_word:6.0%}"
    )
    return f"{name:9} {level.eta:8.2f} {shares}"
