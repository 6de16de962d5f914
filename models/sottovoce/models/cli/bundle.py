"""Commands that build the files for devices: the bundle, and the encoder alone."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sottovoce.core.bundle.manifest import bundle_id
from sottovoce.core.bundle.signature import signing_key
from sottovoce.core.platform.console import (
    Command,
    folder_option,
    if_interrupted,
    print_json,
    watch_stages,
)

if TYPE_CHECKING:
    from sottovoce.models.encoder import Exporter
    from sottovoce.models.indexes import Choice

_exporter_option = click.option(
    "--exporter",
    type=click.Choice(["built-in", "optimum"]),
    default="built-in",
    show_default=True,
    help="Writer of the encoder's graph. built-in knows encoders like BERT and takes every kind of"
    " adapter. optimum knows other encoders (DistilBERT, RoBERTa, XLM-R, ModernBERT), but takes no"
    " adapters with prefixes. It needs the extra `export`.",
)


@click.command("build-bundle", cls=Command, needs="sottovoce-models[export]")
@folder_option("--out", "bundle", "Folder to write.")
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Model for the embeddings of the privacy space: a folder or a Hugging Face name.",
)
@folder_option("--models", "models", "Folder with the tagger and the word frequencies.")
@click.option(
    "--spacy",
    default="",
    metavar="PIPELINE",
    help="Tag with this spaCy pipeline instead. Devices must be set to the same pipeline.",
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
    help="Search of words: auto measures the best one on this machine, exact compares with every"
    " word, hnsw takes a graph if it finds enough. Graphs need the extra `graph`. Without it, auto"
    " tries none.",
)
@click.option(
    "--words",
    type=click.IntRange(1_000, 200_000),
    help="Free words to list: the backbone's whole tokens first, then words of several tokens,"
    " commonest first.  [default: all whole tokens]",
)
@click.option(
    "--encoder",
    is_flag=True,
    help="Also write the backbone as devices run it, for on-device inference. Fetching it is"
    " optional for devices.",
)
@_exporter_option
@click.option(
    "--measure-levels",
    is_flag=True,
    help="Measure the noise of all levels, and keep them in the models folder, in place of the"
    " levels there. A build measures them anyway for other words or another backbone than the kept"
    " levels belong to.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign the bundle with this private key (PEM, Ed25519). A missing key is created."
    "  [default: sotto-cloud serve signs]",
)
def build_bundle(
    out: Path,
    backbone: str,
    models: Path,
    spacy: str,
    dimensions: int,
    index: Choice,
    words: int | None,
    encoder: bool,
    exporter: Exporter,
    measure_levels: bool,
    key: Path | None,
    as_json: bool,
) -> None:
    """Build the bundle that devices fetch: privacy space, indexes, calibration, tagger.

    The same inputs give the same bytes. The command replaces a bundle at
    --out once the new one is complete.
    """
    from sottovoce.models.bundle import build

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
            words=words,
            encoder=encoder,
            exporter=exporter,
            sign=signing_key(key) if key else None,
            measure_levels=measure_levels,
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


@click.command("export", cls=Command, needs="sottovoce-models[train]")
@click.option(
    "--backbone",
    default="default",
    show_default=True,
    help="Encoder to export: a folder or a Hugging Face name.",
)
@_exporter_option
@folder_option("--out", "build/encoder", "Folder to write.")
def export(backbone: str, exporter: Exporter, out: Path, as_json: bool) -> None:
    """Export a backbone as devices run it, and compare it with torch.

    Writes the graph, the token table and their description. Devices fetch an
    encoder as part of a bundle: see `build-bundle --encoder`.
    """
    from sottovoce.core.bundle.backbone import BackboneFiles
    from sottovoce.core.bundle.encoder import DESCRIPTION
    from sottovoce.models import encoder
    from sottovoce.models.bundle import replacing

    files = BackboneFiles.open(backbone)
    with replacing(out, DESCRIPTION) as made:
        agreement = encoder.write(files, made, exporter, compare=True)
        size = sum(file.stat().st_size for file in made.iterdir())
    if as_json:
        print_json(
            {
                "path": str(out),
                "backbone": files.name,
                "exporter": exporter,
                "bytes": size,
                "max_difference": agreement.difference,
                "cosine": agreement.cosine,
            }
        )
    else:
        click.echo(f"encoder of {files.name} at {out}, {size / 1e6:.1f} MB")
        click.echo(
            f"compared with torch: max difference {agreement.difference:.1e} before rounding to"
            f" bytes, mean cosine {agreement.cosine:.4f} after"
        )
