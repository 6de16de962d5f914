"""``sotto-models train-denoiser``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.core.platform.console import Command, json_option, print_json


@click.command("train-denoiser", cls=Command)
@click.option(
    "--data",
    "paths",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    help="Public text: the project's data folder, or .txt, .tsv, .jsonl, .conllu files [.gz].",
)
@click.option(
    "--bundle",
    type=folder,
    default=Path("build/bundle"),
    show_default=True,
    help="Bundle whose privacy space and levels to train for.",
)
@click.option(
    "--out",
    type=folder,
    default=Path("models/denoiser"),
    show_default=True,
    help="Folder to write.",
)
@click.option(
    "--work",
    type=folder,
    default=Path("build/denoiser"),
    show_default=True,
    help="Folder a stopped run goes on from.",
)
@click.option("--backbone", default="default", show_default=True, help="Name or path of the model.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:1.")
@click.option("--passages", type=click.IntRange(20), help="Use at most so many passages.")
@click.option("--epochs", type=click.IntRange(1), help="Over the passages.")
@json_option
def command(
    paths: tuple[Path, ...],
    bundle: Path,
    out: Path,
    work: Path,
    backbone: str,
    device: str,
    passages: int | None,
    epochs: int | None,
    as_json: bool,
) -> None:
    """Train the denoiser that turns the cloud's noisy answers into embeddings.

    Run it again after a stop, or for another privacy space: what is done is not done again.
    """
    from sottovoce.core.bundle.folder import Bundle
    from sottovoce.models.denoiser.pipeline import train_denoiser
    from sottovoce.models.denoiser.training import DenoiserHyperparameters

    recipe = DenoiserHyperparameters()
    if epochs:
        recipe = replace(recipe, epochs=epochs, helped_epochs=epochs)
    with watch_stages(enabled=not as_json) as show:
        found = train_denoiser(
            paths,
            Bundle.open(bundle),
            out,
            work=work,
            backbone=backbone,
            recipe=recipe,
            most=passages,
            device=device,
            progress=show,
        )
    levels = {name: asdict(figures) for name, figures in found.items()}
    if as_json:
        print_json({"path": str(out), "levels": levels})
        return
    click.echo(f"denoiser at {out}; cosine with the clean embedding on held-out passages:")
    for name, figures in found.items():
        click.echo(
            f"  {name:9} attack {figures.map_attack:.2f}  answer {figures.answer:.3f}  "
            f"local {figures.local:.3f}  denoised {figures.denoised:.3f}"
        )
