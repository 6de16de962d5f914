"""Bundles with a device's encoder among their optional files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.bundle.folder import ENCODER, Bundle
from sottovoce.core.bundle.manifest import MANIFEST, StoredFile, sha256
from tests.support.onnx_bytes import field, graph, model, tensor


def offered(folder: Path, language: str | None = None) -> Path:
    """Names what lies in the encoder's folder of a bundle in its manifest."""
    optional = {
        f"{ENCODER}/{file.name}": StoredFile(file.stat().st_size, sha256(file))
        for file in sorted((folder / ENCODER).iterdir())
    }
    manifest = Bundle.open(folder).manifest
    changed = replace(manifest, optional=optional, language=language or manifest.language)
    (folder / MANIFEST).write_bytes(changed.to_json())
    return folder


def with_some_files(bundle: Path, to: Path, language: str = "en") -> Path:
    """A copy of a bundle with two optional files; any network will do to be carried."""
    shutil.copytree(bundle, to)
    (to / ENCODER).mkdir()
    (to / ENCODER / "encoder.onnx").write_bytes(
        model(graph((), field(5, tensor("weights", bytes(range(256)) * 20))))
    )
    (to / ENCODER / "encoder.json").write_text(f"{language}\n")
    return offered(to, language)


def with_encoder(folder: Path, backbone: Path) -> Path:
    """A tiny bundle that has the encoder of its backbone."""
    from tests.support.tiny_bundle import tiny_bundle

    return _encoded(tiny_bundle(folder, backbone), str(backbone))


def copied_with_encoder(bundle: Path, to: Path) -> Path:
    """A copy of a bundle of the default backbone, with the encoder of that backbone."""
    shutil.copytree(bundle, to)
    return _encoded(to, "default")


def _encoded(folder: Path, backbone: str) -> Path:
    (folder / ENCODER).mkdir(exist_ok=True)
    for name, data in _encoder(backbone).items():
        (folder / ENCODER / name).write_bytes(data)
    return offered(folder)


@cache
def _encoder(backbone: str) -> dict[str, bytes]:
    """Return the files of an encoder, by name; kept, because the campaign needs them four times."""
    from sottovoce.models import encoder as device_encoder  # only where there is a builder

    with TemporaryDirectory() as folder:
        device_encoder.write(BackboneFiles.open(backbone), Path(folder, ENCODER))
        return {file.name: file.read_bytes() for file in Path(folder, ENCODER).iterdir()}
