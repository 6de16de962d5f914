"""``sotto-models build-bundle``."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sottovoce.cloud.cli.options import folder, watch_stages
from sottovoce.cloud.store.signing import signing_key
from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.platform.console import Command, if_interrupted, json_option, print_json

if TYPE_CHECKING:
    from sottovoce.models.bundle.indexes import Choice


@click.command("build-bundle", cls=Command)
@click.option(
    "--out", type=folder, default=Path("bundle"), show_default=True, help="Folder to write."
)
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model whose embeddings make the privacy space: a folder or a Hugging Face name.",
)
@click.option(
    "--models",
    type=folder,
    default=Path("models"),
    show_default=True,
    help="Folder with the tagger and the word frequencies.",
)
@click.option(
    "--spacy",
    default="",
    metavar="PIPELINE",
    help="Tag with this spaCy pipeline instead; devices must then be set to the same one.",
)
@click.option(
    "--dimensions",
    type=click.IntRange(2, 1024),
    default=16,
    show_default=True,
    help="Width of the privacy space.",
)
@click.option(
    "--index",
    type=click.Choice(["auto", "exact", "hnsw"]),
    default="auto",
    show_default=True,
    help="How words are searched: as measured to be best on this machine; one by one; over a graph"
    " wherever that finds enough. Graphs need the extra `graph`; without it, auto tries none.",
)
@click.option(
    "--encoder",
    is_flag=True,
    help="Also write the backbone as devices run it, for answers at home; each device chooses"
    " whether to fetch it.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the bundle with this private key (PEM, Ed25519), which is made if it is not there."
    "  [default: sotto-cloud serve signs]",
)
@json_option
def command(
    out: Path,
    backbone: str,
    models: Path,
    spacy: str,
    dimensions: int,
    index: Choice,
    encoder: bool,
    key: Path | None,
    as_json: bool,
) -> None:
    """Build the bundle that devices fetch: privacy space, indexes, calibration, tagger.

    The same inputs give the same bytes. A bundle already at --out is replaced
    once the new one is whole.
    """
    from sottovoce.models.bundle.build import build

    started = time.monotonic()
    if_interrupted(
        f"no bundle was written to {out}; one that was there stays", "run the command again"
    )
    with watch_stages(enabled=not as_json) as show:
        manifest = build(
            out,
            backbone=backbone,
            models=models,
            spacy=spacy,
            dimensions=dimensions,
            index=index,
            encoder=encoder,
            sign=signing_key(key) if key else None,
            progress=show,
        )
    identity, seconds = bundle_id(manifest.to_json()), time.monotonic() - started
    graphs_tried = index != "exact" and find_spec("hnswlib") is not None
    if as_json:
        print_json(
            {
                "bundle_id": identity,
                "path": str(out),
                "backbone": manifest.backbone.name,
                "words": manifest.words,
                "bytes": sum(stored.bytes for stored in manifest.files.values()),
                "encoder_bytes": sum(stored.bytes for stored in manifest.optional.values()),
                "graphs_tried": graphs_tried,
                "seconds": round(seconds, 1),
            }
        )
    else:
        click.echo(f"bundle {identity}, {manifest.words:,} words, at {out} ({seconds:.0f} s)")
        if index == "auto" and not graphs_tried:
            click.echo(
                "Every word class is searched word by word. Graphs were not tried: hnswlib is not "
                "installed. To try them: pip install 'sottovoce-models[graph]'"
            )
