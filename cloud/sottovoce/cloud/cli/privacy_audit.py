"""``sotto-cloud audit``: test the epsilon of private training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sottovoce.cloud.cli.options import opened, state_option, store_option
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import Command, if_interrupted, print_json, watch_stages

if TYPE_CHECKING:
    from sottovoce.cloud.job import Example, Job, Progress, TrainingOptions

_METHODS = ("head", "lora", "prompt", "prefix")


@click.command("audit", cls=Command)
@click.argument("adapter", required=False)
@click.option(
    "--input",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Your examples: a header with the columns text and label, then one a line, tab-separated.",
)
@state_option
@store_option
@click.option("--tenant", help="Tenant of ADAPTER, if several have one of that name.")
@click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="lora",
    show_default=True,
    help="Without ADAPTER: the training method.",
)
@click.option(
    "--dp-epsilon",
    type=float,
    default=3.0,
    show_default=True,
    help="Without ADAPTER: the claimed epsilon.",
)
@click.option(
    "--canaries",
    type=int,
    default=256,
    show_default=True,
    help="Number of canaries; at most half of the examples.",
)
@click.option("--backbone", default="default", show_default=True, help="Name or path of the model.")
def audit(
    adapter: str | None,
    source: Path,
    state: Path,
    store: str,
    tenant: str | None,
    method: str,
    dp_epsilon: float,
    canaries: int,
    backbone: str,
    as_json: bool,
) -> None:
    """Test the epsilon of private training, by trying to refute it.

    Trains once on your examples, with the settings of the job that made ADAPTER
    (its name or the job's id, see `sotto-cloud jobs list`) or with the given settings.
    Some examples become canaries with a wrong label. A coin decides whether each canary
    is trained on, and the audit guesses the coins from the finished adapter. With more
    right guesses than the claimed epsilon allows, the claim is false with 95 %
    confidence, and the exit code is 1. A bound below the claim proves only that this
    attack found no fault.
    """
    from sottovoce.cloud.job import TrainingOptions
    from sottovoce.cloud.models import backbone as backbones
    from sottovoce.cloud.training.dp_sgd.audit import audit

    options = TrainingOptions(method=method, dp_epsilon=dp_epsilon)
    if adapter is not None:
        options = _settings(state, store, adapter, tenant)
    examples = _examples(source)
    if_interrupted("nothing was shown or refuted", "run the command again")
    with watch_stages(enabled=not as_json) as show:

        def step(done: Progress) -> None:
            show("training", done.step, done.steps)

        found = audit(
            examples, options, lambda: backbones.load(backbone), canaries=canaries, on_progress=step
        )
    shown = found.shown
    if as_json:
        print_json(
            {
                "claimed": found.claimed,
                "delta": found.delta,
                "at_least": shown.epsilon,
                "confidence": shown.confidence,
                "holds": found.holds,
                "method": options.method,
                "examples": len(examples),
                "canaries": shown.canaries,
                "guesses": shown.guesses,
                "right": shown.right,
            }
        )
    else:
        verdict = "not refuted" if found.holds else "REFUTED: training is less private than it says"
        click.echo(
            f"claimed: epsilon {found.claimed:.2f} at delta {found.delta:.1g}\n"
            f"shown:   epsilon is at least {shown.epsilon:.2f} ({shown.confidence:.0%} confidence; "
            f"{shown.right} of {shown.guesses} guesses right, {shown.canaries} canaries)\n"
            f"{verdict}"
        )
    if not found.holds:
        raise click.exceptions.Exit(1)


def _settings(state: Path, store: str, name: str, tenant: str | None) -> TrainingOptions:
    """Return the settings of the newest job for adapter ``name``, or of the job with that id."""
    from sottovoce.cloud.job import State
    from sottovoce.cloud.jobs import Jobs

    found: dict[str, Job] = {}
    with opened(state, store) as database:
        for job in Jobs(database).every(tenant):
            if name == job.id or (name == job.adapter and job.state is State.SUCCEEDED):
                found.setdefault(job.tenant, job)
    if not found:
        raise NotFound(
            "no job made such an adapter",
            fix="see `sotto-cloud jobs list` for adapters and jobs",
            subject="adapter",
        )
    if len(found) > 1:
        raise InvalidInput(
            "several tenants have an adapter of that name",
            fix="say whose with --tenant, or give the id of its job",
            subject="adapter",
        )
    (job,) = found.values()
    return job.training


def _examples(source: Path) -> list[Example]:
    """Read the rows of a table."""
    from sottovoce.cloud.job import Example

    try:
        lines = source.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{source} is not UTF-8", fix="save it as UTF-8", subject="input"
        ) from error
    header = lines[0].split("\t") if lines else []
    if not {"text", "label"} <= set(header):
        raise InvalidInput(
            f"{source}, line 1: no columns text and label",
            fix="begin the file with a header: text<TAB>label",
            subject="input",
        )
    found = []
    for number, line in enumerate(lines[1:], 2):
        row = dict(zip(header, line.split("\t"), strict=False))
        text, label = row.get("text", "").strip(), row.get("label", "").strip()
        if not line.strip():
            continue
        if not text or not label:
            raise InvalidInput(
                f"{source}, line {number}: no text or no label",
                fix="put one tab between text and label, and none inside them",
                subject="input",
            )
        found.append(Example(text, label))
    return found
