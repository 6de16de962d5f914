"""Runs the steps of a build in order and writes the bundle's files.

Why it is here: the steps are pure functions of arrays; this is the rim that reads the models and
writes the folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.levels import Level
from sottovoce.core.bundle.manifest import (
    ANY,
    CLITIC,
    ENCODER,
    MANIFEST,
    Backbone,
    Manifest,
    StoredFile,
    WordClass,
)
from sottovoce.core.bundle.manifest import sha256 as file_hash
from sottovoce.core.bundle.signature import SIGNATURE, Signature
from sottovoce.core.bundle.tokenizer import VOCABULARY, open_tokenizer, without_vocabulary
from sottovoce.core.errors import BundleMismatch, InvalidInput, NotReady
from sottovoce.core.privacy import policies, token_embedding
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.interface import Mechanism
from sottovoce.core.privacy.mechanisms.pct2t import OWN, PCT2T2
from sottovoce.core.privacy.mechanisms.registry import MECHANISMS
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import common, weights_by_class, weights_by_reading
from sottovoce.core.text.names import LISTED, NameFinder
from sottovoce.core.text.tagger import UPOS, OnnxTagger, SpacyTagger, Tagger
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models import encoder as device_encoder
from sottovoce.models import space
from sottovoce.models.bundle import cards, denoisers, indexes
from sottovoce.models.bundle.folder import replacing
from sottovoce.models.calibration import calibration
from sottovoce.models.corpus import frequencies
from sottovoce.models.corpus.language import Language
from sottovoce.models.corpus.token_frequencies import token_log_prior
from sottovoce.models.vocabulary import classes as word_classes
from sottovoce.models.vocabulary import readings
from sottovoce.models.vocabulary import vocabulary as vocabularies
from sottovoce.models.vocabulary.vocabulary import Vocabulary

__all__ = ["build"]

Progress = Callable[[str, int, int], None]
"""Called with the stage, and how much of it is done out of how much."""


@dataclass(frozen=True, slots=True)
class _Words:
    """What the calibration and the indexes share."""

    vocabulary: Vocabulary
    space: Floats2d
    readings: NDArray[np.uint8]
    classes: Mapping[str, NDArray[np.int32]]

    def text(self, mechanism: Mechanism) -> calibration.Text:
        counts, clitic = self.vocabulary.counts, self.vocabulary.clitic

        def weights(counts: NDArray[np.float64]) -> Mapping[str, NDArray[np.float64]]:
            if mechanism.contextual:
                return weights_by_class(counts, clitic, mechanism.tags)
            return weights_by_reading(counts, self.readings, mechanism)

        return calibration.Text(
            self.space,
            self.classes,
            weights(counts),
            ~common(counts, clitic),
            weights(counts * (np.array(UPOS) == "PROPN")),
        )


def build(
    out: Path,
    *,
    backbone: str = "default",
    models: Path = Path("models"),
    spacy: str = "",
    dimensions: int = space.DIMENSIONS,
    index: indexes.Choice = "auto",
    limit: int | None = None,
    encoder: bool = False,
    sign: Ed25519PrivateKey | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Builds a bundle in ``out``, replacing the one there at once when all is done.

    Args:
        out: folder of the bundle.
        backbone: name or path, see `sottovoce.cloud.models.backbone`.
        models: folder with ``tagger``, ``frequencies`` and ``facts``, as in the repository, and
            ``names`` if there is a name finder for the language.
        spacy: a spaCy pipeline that tags in place of ``models``' tagger. The bundle then brings no
            tagger; devices are set to the same pipeline.
        dimensions: r, of the privacy space.
        index: how classes are searched, see `sottovoce.models.bundle.indexes`.
        limit: only the first so many whole words of the backbone, for small bundles.
        encoder: also write the backbone as devices run it, a file that they need not fetch.
        sign: the provider's key; without one the bundle is not signed.
        progress: told of every step.

    Returns:
        The manifest, as written.

    Raises:
        NotFound: no such backbone.
        NotReady: ``models`` lacks a part, or spaCy the pipeline, or the same folder is being built
            already.
        InvalidInput: the backbone, ``dimensions``, ``out`` or the pipeline's language will not do,
            or the backbone cannot be an ``encoder``.
    """
    tell = progress or (lambda stage, done, total: None)
    for part in (*(() if spacy else ("tagger",)), "frequencies", "facts"):
        if not (models / part).is_dir():
            raise NotReady(
                f"no {part} in the models folder {models}",
                fix="name the repository's models folder with --models",
                subject="models",
            )
    tell("reading", 0, 1)
    table = frequencies.load(models / "frequencies")
    facts = readings.load_facts(models / "facts")
    tagger: Tagger = _spacy(spacy, table.language) if spacy else OnnxTagger.load(models / "tagger")
    model = backbones.load(backbone)
    with replacing(out, MANIFEST) as folder, _workers() as run:
        tell("words", 0, 1)
        vocabulary = vocabularies.make(model.tokenizer, table, limit=limit)
        tokens = backbones.input_embeddings(model)
        embeddings = _mean_rows(tokens, vocabulary.tokens)
        counts = vocabulary.counts.sum(axis=1)
        space.check_dimensions(dimensions, embeddings.shape[1])
        near = space.neighbours(embeddings, run)
        projection = space.fit(embeddings, counts, near, dimensions)
        # Clitics replace one another only: moved towards free words, they would lose themselves.
        moved = np.where(vocabulary.clitic, np.inf, counts)
        carriers = table.language.carriers
        read = readings.readings(vocabulary, tagger, carriers, facts)
        words = _Words(
            vocabulary,
            space.place(projection(embeddings), moved, near),
            read,
            word_classes.classes(vocabulary, tagger, carriers)
            | readings.partition(read, vocabulary.clitic),
        )
        np.save(folder / "readings.npy", read)
        placed = space.on_tokens(projection(tokens), words.space, vocabulary.tokens)
        np.save(folder / "tokens.npy", placed)
        np.save(folder / "token_prior.npy", token_log_prior(model.tokenizer, table))
        members = np.concatenate([*words.classes.values()])
        np.save(folder / "members.npy", members)
        np.save(folder / "rows.npy", words.space[members])
        met = _met(words)
        np.save(folder / token_embedding.COUNTS, np.concatenate([*met.values()]).astype(np.float32))
        (folder / "words.txt").write_text("\n".join((*vocabulary.words, "")), encoding="utf-8")
        _write_tokenizer(model.tokenizer, folder)
        for part in (*(() if spacy else ("tagger",)), "names"):
            _copy(models / part, folder / part)
        if (folder / "names").is_dir():
            finder = NameFinder.load(folder / "names")
            np.save(folder / "names" / LISTED, finder.of_listed(vocabulary.words))
        calibrated = _calibrate(words, run, tell)
        at = {
            f"{mechanism}/{name}": level
            for mechanism, (levels, _) in calibrated.items()
            for name, level in levels.items()
        }
        stored = _searches(words, met, at, index, run, tell)
        named = Backbone(model.name, model.sha256, model.hidden_size)
        tell("denoiser", 0, 1)
        embed = denoisers.add(models / "denoiser", folder, named)
        shipped = ("frequencies", "facts", *(() if spacy else ("tagger",)), "names")
        cards.add(models, (*shipped, *(("denoiser",) if embed else ())), folder)
        required = _files(folder)
        if encoder:
            tell("encoder", 0, 1)
            device_encoder.write(model, folder / ENCODER)
        manifest = Manifest(
            backbone=named,
            language=table.language.code,
            dimensions=dimensions,
            words=len(vocabulary.words),
            tagset=UPOS,
            clitics=tuple(np.array(vocabulary.words)[vocabulary.clitic].tolist()),
            classes=stored,
            calibration={mechanism: levels for mechanism, (levels, _) in calibrated.items()},
            curve={mechanism: curve for mechanism, (_, curve) in calibrated.items()},
            files=required,
            embed=embed,
            shares=readings.shares(vocabulary, read, table),
            optional={p: file for p, file in _files(folder).items() if p not in required},
        )
        (folder / MANIFEST).write_bytes(manifest.to_json())
        if sign is not None:
            signature = Signature.make(manifest.to_json(), sign)
            (folder / SIGNATURE).write_bytes(signature.to_bytes())
    tell("done", 1, 1)
    return manifest


def _copy(part: Path, to: Path) -> None:
    """A network and its description; nothing where there is none."""
    if part.is_dir():
        to.mkdir()
        for suffix in (".onnx", ".json"):
            shutil.copyfile(part / f"{part.name}{suffix}", to / f"{part.name}{suffix}")


def _spacy(pipeline: str, language: Language) -> Tagger:
    tagger = SpacyTagger(pipeline)
    if tagger.language != language.code:
        raise InvalidInput(
            f"the pipeline is for {tagger.language!r}, the word frequencies for {language.code!r}",
            fix="name the models folder of the pipeline's language with --models",
            subject="spacy",
        )
    return tagger


@contextmanager
def _workers() -> Iterator[calibration.Run]:
    """A `map` over threads, each of which does its algebra alone: sums are then always made in the
    same order, however many processors there are."""
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        yield pool.map


def _mean_rows(tokens: Floats2d, pieces: tuple[tuple[int, ...], ...]) -> Floats2d:
    """The mean embedding of each word's tokens: Floats2d (words, width)."""
    rows = np.empty((len(pieces), tokens.shape[1]), np.float32)
    for row, ids in zip(rows, pieces, strict=True):
        row[:] = tokens[list(ids)].mean(axis=0)
    return rows


def _write_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the tokenizer as devices read it.

    Padding and truncation go, because they would count as parts of a word. The vocabulary is a file
    of its own where the device can read it in place.

    Raises:
        InvalidInput: devices would refuse the tokenizer.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    saved, tokens = without_vocabulary(backend.to_str())
    (folder / "tokenizer.json").write_text(saved, encoding="utf-8")
    if tokens is not None:
        (folder / VOCABULARY).write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    try:
        open_tokenizer(folder / "tokenizer.json")
    except BundleMismatch as error:
        raise InvalidInput(
            f"devices would refuse a bundle of this backbone: {error.problem}",
            fix="use a backbone whose tokenizer has standard parts",
            subject="backbone",
        ) from error


def _calibrate(
    words: _Words, run: calibration.Run, tell: Progress
) -> dict[str, tuple[dict[str, Level], tuple[Level, ...]]]:
    found = {}
    mechanisms = _at_any_eta()
    for done, (name, mechanism) in enumerate(mechanisms.items()):
        tell("calibrating", done, len(mechanisms))
        text = words.text(mechanism)
        if mechanism.contextual:
            found[name] = calibration.calibrate(text, run)
        else:
            every = words.text(PCT2T2(1.0, READINGS))
            found[name] = calibration.calibrate_by_class(text, every, run)
    tell("calibrating", len(mechanisms), len(mechanisms))
    return found


def _at_any_eta() -> dict[str, Mechanism]:
    """What each mechanism covers under the default policy, which does not depend on eta."""
    covered = policies.find(policies.DEFAULT).with_noise()
    return {name: registry.make(name, Level(1.0), covered) for name in MECHANISMS}


def _met(words: _Words) -> dict[str, NDArray[np.float64]]:
    """How often the members of each class are met in it: Floats1d (members,) by class."""
    counts, clitic = words.vocabulary.counts, words.vocabulary.clitic
    met = weights_by_class(counts, clitic, None)
    met |= weights_by_class(counts, clitic, word_classes.CLASS_TAGS)
    every = PCT2T2(1.0, READINGS)
    met |= weights_by_reading(counts, words.readings, every)
    none = np.zeros(len(counts))
    return {name: met.get(name, none)[members] for name, members in words.classes.items()}


def _searches(
    words: _Words,
    met: Mapping[str, NDArray[np.float64]],
    levels: Mapping[str, Level],
    choice: indexes.Choice,
    run: calibration.Run,
    tell: Progress,
) -> dict[str, WordClass]:
    """How each class is searched. All words and all clitics are searched by every mechanism: a
    class without words of its own falls back on them."""
    mechanisms = _at_any_eta()
    ends = np.cumsum([len(members) for members in words.classes.values()]).tolist()

    def one(task: tuple[str, int]) -> WordClass:
        name, end = task
        members = words.classes[name]
        tag, clitic = name.removesuffix(CLITIC), name.endswith(CLITIC)
        searched = {
            at: level.etas.get(name, level.eta)
            for at, level in levels.items()
            if tag == ANY or _moves(mechanisms[at.partition("/")[0]], tag, clitic, name)
        }
        return indexes.build(
            words.space[members],
            met[name],
            searched,
            end - len(members),
            choice=choice,
        )

    stored = {}
    tasks = list(zip(words.classes, ends, strict=True))
    for done, ((name, _), found) in enumerate(zip(tasks, run(one, tasks), strict=True)):
        tell("indexing", done, len(tasks))
        stored[name] = found
    return stored


def _moves(mechanism: Mechanism, tag: str, clitic: bool, name: str) -> bool:
    """Whether words move within the class ``name`` under ``mechanism``."""
    if mechanism.contextual == name.startswith(OWN):
        return False
    return mechanism.word_class(tag.removeprefix(OWN), clitic) == name


def _files(folder: Path) -> dict[str, StoredFile]:
    return {
        path.relative_to(folder).as_posix(): StoredFile(path.stat().st_size, file_hash(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
