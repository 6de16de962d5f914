"""A bundle made from a tiny encoder: it needs its files and hashes, not its calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sottovoce.cloud.models import backbone
from sottovoce.core.bundle import manifest as bundles
from sottovoce.core.bundle.levels import Level
from tests.support.examples import WORDS


def tiny_bundle(
    folder: Path, backbone_folder: Path, *, language: str = "en", counts: bool = False
) -> Path:
    """Write a bundle with the word list ``WORDS`` and made-up levels.

    ``counts`` adds word frequencies.
    """
    loaded = backbone.load(str(backbone_folder))
    random = np.random.default_rng(0)
    rows = random.normal(size=(len(WORDS), 4)).astype(np.float32)
    folder.mkdir(parents=True)
    np.save(folder / "rows.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))
    tokens = random.normal(size=(len(loaded.tokenizer), 4)).astype(np.float32)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "token_prior.npy", np.full(len(tokens), -np.log(len(tokens)), np.float32))
    np.save(folder / "readings.npy", np.zeros(len(WORDS), np.uint8))
    np.save(folder / "members.npy", np.arange(len(WORDS), dtype=np.int32))
    if counts:
        np.save(folder / "class_counts.npy", random.integers(1, 99, len(WORDS)).astype(np.float32))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (folder / "tokenizer.json").write_bytes((backbone_folder / "tokenizer.json").read_bytes())
    (folder / "large.bin").write_bytes(random.bytes(600_000))
    level = Level(30.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    manifest = bundles.Manifest(
        backbone=bundles.Backbone(loaded.name, loaded.sha256, loaded.hidden_size),
        language=language,
        dimensions=4,
        words=len(WORDS),
        tagset=("NOUN",),
        clitics=(),
        classes={"*": bundles.WordClass(0, len(WORDS), 0, {})},
        calibration={"pct2t.v2": {"balanced": level}, "pct2t.v1": {"balanced": level}},
        curve={},
        files={
            file.name: bundles.StoredFile(file.stat().st_size, bundles.sha256(file))
            for file in sorted(folder.iterdir())
        },
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return folder
