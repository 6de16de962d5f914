"""Builds bundles: the public data with which a device privatises text for one backbone.

A bundle holds everything that a device trusts, from the word list to the noise of each level. Every
part is measured here once and recorded with its hash. A bundle depends only on the backbone and on
the models folder, and equal inputs give equal bytes. The steps are pure functions of arrays; this
module reads the models, runs the steps in order and writes the folder.

    vocabulary -> space -> classes -> calibration -> indexes -> manifest
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.bundle.folder import CARDS
from sottovoce.core.bundle.levels import NAMES, EmbedLevel, Level, single_word
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
from sottovoce.core.bundle.tokenizer import VOCABULARY
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.platform.files import sync_folder, sync_tree
from sottovoce.core.platform.schema import decode, parse_object
from sottovoce.core.privacy import mechanisms, policies, token_embedding
from sottovoce.core.privacy.attacker import common, weights_by_class, weights_by_reading
from sottovoce.core.privacy.denoiser import DESCRIPTION, FILES, Facts, misfit, space_sketch
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T2, Mechanism
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.text.names import LISTED, NameFinder
from sottovoce.core.text.tagger import UPOS, OnnxTagger, SpacyTagger, Tagger
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models import calibration, frequencies, indexes, kept_levels, space
from sottovoce.models import encoder as device_encoder
from sottovoce.models import vocabulary as vocabularies
from sottovoce.models.calibration_attack import LEVELS as TOKEN_LEVELS
from sottovoce.models.calibration_attack import calibrate_tokens, token_log_prior
from sottovoce.models.corpus import Language
from sottovoce.models.vocabulary import Vocabulary

_CARD = "README.md"
LEVELS: Final = "levels"
"""The folder of the models folder that keeps levels, see `kept_levels`."""


def _add_cards(models: Path, parts: Iterable[str], folder: Path) -> None:
    """Copy the cards of the parts that have one.

    Some licences ask that authors and licence travel with every model made from their texts.
    """
    (folder / CARDS).mkdir()
    for part in parts:
        card = models / part / _CARD
        if card.is_file():
            shutil.copyfile(card, folder / CARDS / f"{part}.md")


def add_denoiser(
    shipped: Path, folder: Path, backbone: Backbone, kept: Mapping[str, EmbedLevel] | None = None
) -> Mapping[str, EmbedLevel]:
    """Copy the denoiser in ``shipped`` into the unfinished bundle in ``folder``.

    A denoiser is trained for one backbone, vocabulary and privacy space. A bundle that differs in
    one of these serves texts just as well, but no embeddings.

    Args:
        shipped: folder with a denoiser, or without one.
        folder: already holds ``tokenizer.json``, ``tokens.npy`` and ``token_prior.npy``.
        kept: levels that were measured before; without any they are measured.

    Returns:
        The levels of `token-embedding.v1`; empty if no denoiser fits.
    """
    if not (shipped / DESCRIPTION).is_file():
        return {}
    _, raw = parse_object((shipped / DESCRIPTION).read_bytes())
    facts = decode(Facts, raw, more=True)
    tokens = np.load(folder / "tokens.npy", allow_pickle=False)
    if misfit(facts, backbone, folder / "tokenizer.json", tokens):
        return {}
    (folder / "denoisers").mkdir()
    for name in FILES:
        shutil.copyfile(shipped / name, folder / "denoisers" / name)
    if kept:
        return kept
    prior = np.load(folder / "token_prior.npy", allow_pickle=False)
    return calibrate_tokens(unit_rows(tokens), prior)


_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@contextmanager
def replacing(out: Path, marker: str) -> Iterator[Path]:
    """Yield an empty folder that replaces ``out`` when the block ends without an error.

    Remains of an earlier, killed run are deleted. After an error nothing is left.

    Args:
        out: the folder to make or replace.
        marker: a file that a folder must hold to be replaced, which protects mistyped paths.

    Raises:
        InvalidInput: ``out`` exists and is not such a folder.
        NotReady: another process is building in the same place.
    """
    out = out.absolute()
    if out.exists() and not (out / marker).is_file() and not _is_empty_folder(out):
        raise InvalidInput(
            f"{out} exists and holds no {marker}",
            fix="name a new folder, or one that may be replaced",
            subject="out",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    with _only_one(out.parent):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            sync_tree(partial)
            _put_in_place(partial, out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@contextmanager
def _only_one(parent: Path) -> Iterator[None]:
    """Lock the parent folder, which leaves no lock file behind."""
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise NotReady(
            f"another process is building in {parent}", fix="wait for it to end", subject="out"
        ) from error
    finally:
        os.close(descriptor)


def _put_in_place(new: Path, out: Path) -> None:
    """Rename ``new`` to ``out``. A folder that was there gets the name of ``new``."""
    if not out.exists():
        new.rename(out)
    elif not _exchange(new, out):
        old = new.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        new.rename(out)
        shutil.rmtree(old)
    sync_folder(out.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, if the system can (Linux, most file systems)."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE) == 0)


Progress = Callable[[str, int, int], None]
"""Called with the stage, the amount done and the total."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The inputs that calibration and indexes share."""

    vocabulary: Vocabulary
    space: Floats2d
    readings: NDArray[np.uint8]
    classes: Mapping[str, NDArray[np.int32]]

    def basis(self) -> _Words | None:
        """The words that make the space, as if the bundle had no others; None if it has none."""
        inside = self.vocabulary.basis
        if inside.all():
            return None
        counts = self.vocabulary.counts * inside[:, None]
        classes = {name: ids[inside[ids]] for name, ids in self.classes.items()}
        vocabulary = replace(self.vocabulary, counts=counts)
        return replace(self, vocabulary=vocabulary, classes=classes)

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
    words: int | None = None,
    encoder: bool = False,
    exporter: device_encoder.Exporter = "built-in",
    sign: Ed25519PrivateKey | None = None,
    measure_levels: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Build a bundle in ``out``, and replace the bundle there once all is done.

    Args:
        backbone: name or path, see `sottovoce.core.bundle.backbone`.
        models: folder with ``tagger``, ``frequencies`` and ``facts``, as in the repository, and
            ``names`` if there is a name finder for the language. ``levels`` may keep the levels of
            one bundle.
        spacy: a spaCy pipeline that tags in place of ``models``' tagger. The bundle then brings no
            tagger, and devices are set to the same pipeline.
        dimensions: r, of the privacy space.
        index: the way to search classes, see `sottovoce.models.indexes`.
        words: the most free words: whole tokens of the backbone, then words of several tokens, see
            `vocabularies.load_order`. None for all whole tokens.
        encoder: also write the backbone as devices run it. Fetching it is optional for devices.
        exporter: the writer of the encoder's graph.
        sign: the provider's key. Without one the bundle is not signed.
        measure_levels: measure the levels even if ``models`` keeps them, and keep them there.
        progress: called after every step.

    Returns:
        The manifest, as written.

    Raises:
        NotFound: no such backbone.
        NotReady: ``models`` lacks a part, or spaCy the pipeline, or the same folder is being built
            already.
        InvalidInput: the backbone, ``dimensions``, ``out`` or the pipeline's language does not
            fit, or the backbone cannot be an ``encoder``.
    """
    tell = progress or (lambda stage, done, total: None)
    sources = [models / part for part in ("tagger", "frequencies", "facts")[bool(spacy) :]]
    for part in sources:
        if not part.is_dir():
            raise NotReady(
                f"no {part.name} in the models folder {models}",
                fix="name the repository's models folder with --models",
                subject="models",
            )
    tell("reading", 0, 1)
    table = frequencies.load(models / "frequencies")
    facts = vocabularies.load_facts(models / "facts")
    tagger: Tagger = _spacy(spacy, table.language) if spacy else OnnxTagger.load(models / "tagger")
    model = BackboneFiles.open(backbone)
    with replacing(out, MANIFEST) as folder, _workers() as run:
        tell("words", 0, 1)
        vocabulary = vocabularies.make_vocabulary(model.tokenizer, table, limit=words)
        if words is not None and (~vocabulary.clitic).sum() < words:
            order = vocabularies.load_order(models)
            vocabulary = vocabularies.make_vocabulary(
                model.tokenizer, table, limit=words, order=order
            )
        rows, tokens = _place(model.input_embeddings(), vocabulary, dimensions, run)
        carriers = table.language.carriers
        read = vocabularies.word_readings(vocabulary, tagger, carriers, facts)
        classes = vocabularies.word_classes(vocabulary, tagger, carriers)
        classes |= vocabularies.partition(read, vocabulary.clitic)
        placed = _Words(vocabulary, rows, read, classes)
        met = _met(placed)
        _write(placed, met, folder)
        np.save(folder / "tokens.npy", tokens)
        np.save(folder / "token_prior.npy", token_log_prior(model.tokenizer, table))
        device_encoder.write_tokenizer(model.tokenizer, folder)
        if not spacy:
            _copy(models / "tagger", folder / "tagger")
        if (models / "names").is_dir():
            _add_names(models / "names", folder / "names", vocabulary)
        measured_on = _measured_on(placed, sources, model.sha256, spacy)
        kept = None if measure_levels else kept_levels.find(models / LEVELS, measured_on)
        calibrated = kept.by_mechanism if kept else _calibrate(placed, run, tell)
        at = {
            f"{mechanism}/{name}": level
            for mechanism, (levels, _) in calibrated.items()
            for name, level in levels.items()
        }
        stored = _searches(placed, met, at, index, run, tell)
        named = Backbone(model.name, model.sha256, model.hidden_size)
        tell("denoiser", 0, 1)
        embed = add_denoiser(models / "denoiser", folder, named, kept.embed if kept else None)
        shipped = ["frequencies", "facts", "names"]
        shipped += ["tagger"] * (not spacy) + ["denoiser"] * bool(embed)
        _add_cards(models, [*shipped, *["vocabulary"] * (not vocabulary.basis.all())], folder)
        required = _files(folder)
        if encoder:
            tell("encoder", 0, 1)
            device_encoder.write(model, folder / ENCODER, exporter)
            device_encoder.write_finder(model, folder / ENCODER, folder / VOCABULARY)
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
            shares=vocabularies.shares(vocabulary, read, table),
            optional={p: file for p, file in _files(folder).items() if p not in required},
        )
        (folder / MANIFEST).write_bytes(manifest.to_json())
        if sign is not None:
            signature = Signature.make(manifest.to_json(), sign)
            (folder / SIGNATURE).write_bytes(signature.to_bytes())
    if measure_levels:
        kept_levels.keep(models / LEVELS, kept_levels.Levels(measured_on, calibrated, dict(embed)))
    tell("done", 1, 1)
    return manifest


def _place(
    tokens: Floats2d, vocabulary: Vocabulary, dimensions: int, run: calibration.Run
) -> tuple[Floats2d, Floats2d]:
    """Return the places in the privacy space of words, and of tokens."""
    embeddings = _mean_rows(tokens, vocabulary.tokens)
    space.check_dimensions(dimensions, embeddings.shape[1])
    counts, basis = vocabulary.counts.sum(axis=1), vocabulary.basis
    near = space.neighbours(embeddings, basis, run)
    projection = space.fit(embeddings, counts, near, basis, dimensions)
    # Clitics replace only clitics. Moved towards free words, they would be hard to tell apart.
    moved = np.where(vocabulary.clitic, np.inf, counts)
    words = space.place(projection(embeddings), moved, near, basis)
    return words, space.on_tokens(projection(tokens), words, vocabulary.tokens)


def _write(words: _Words, met: Mapping[str, NDArray[np.float64]], folder: Path) -> None:
    """Write the words, their readings, and the members of the classes with places and counts."""
    members = np.concatenate([*words.classes.values()])
    np.save(folder / "members.npy", members)
    np.save(folder / "rows.npy", words.space[members])
    np.save(folder / token_embedding.COUNTS, np.concatenate([*met.values()]).astype(np.float32))
    np.save(folder / "readings.npy", words.readings)
    lines = "\n".join((*words.vocabulary.words, ""))
    (folder / "words.txt").write_text(lines, encoding="utf-8")


def _copy(part: Path, to: Path) -> None:
    """Copy a network and its description."""
    to.mkdir()
    for suffix in (".onnx", ".json"):
        shutil.copyfile(part / f"{part.name}{suffix}", to / f"{part.name}{suffix}")


def _add_names(part: Path, to: Path, vocabulary: Vocabulary) -> None:
    """Copy the name finder, and write its rows of frequent words.

    The rows save time. Those of rare words would take more room than all else.
    """
    _copy(part, to)
    basis = vocabulary.basis
    frequent = len(vocabulary.words) if basis.all() else int(basis.argmin())
    np.save(to / LISTED, NameFinder.load(to).of_listed(vocabulary.words[:frequent]))


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
    """Yield a `map` over threads.

    Each thread does its algebra alone. So sums have one order on any number of processors.
    """
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        yield pool.map


def _mean_rows(tokens: Floats2d, pieces: tuple[tuple[int, ...], ...]) -> Floats2d:
    """Return the mean embedding of each word's tokens: Floats2d (words, width)."""
    rows = np.empty((len(pieces), tokens.shape[1]), np.float32)
    for row, ids in zip(rows, pieces, strict=True):
        row[:] = tokens[list(ids)].mean(axis=0)
    return rows


def _measured_on(
    words: _Words, sources: Iterable[Path], backbone: str, spacy: str
) -> kept_levels.Basis:
    """Return what levels are measured on: these words and the levels' targets."""
    targets = (
        (calibration.LEVELS, calibration.REPLACED_ON_CURVE, calibration.ATTACK_ON_CURVE),
        (NAMES, [single_word(share) for share in NAMES.values()], TOKEN_LEVELS),
        [(name, mechanism.tags) for name, mechanism in _at_any_eta().items()],
    )
    return kept_levels.Basis(
        kept_levels.digest(words.vocabulary.words, sources, backbone, spacy, repr(targets)),
        {name: len(members) for name, members in words.classes.items()},
        tuple(space_sketch(words.space)),
    )


def _calibrate(words: _Words, run: calibration.Run, tell: Progress) -> kept_levels.Calibrated:
    found = {}
    basis = words.basis()
    mechanisms = _at_any_eta()
    for done, (name, mechanism) in enumerate(mechanisms.items()):
        tell("calibrating", done, len(mechanisms))
        text = words.text(mechanism)
        if mechanism.contextual:
            of_basis = basis.text(mechanism) if basis else None
            found[name] = calibration.calibrate(text, run, basis=of_basis)
        else:
            every = words.text(PCT2T2(1.0, READINGS))
            found[name] = calibration.calibrate_by_class(text, every, run)
    tell("calibrating", len(mechanisms), len(mechanisms))
    return found


def _at_any_eta() -> dict[str, Mechanism]:
    """Return each mechanism under the default policy. Its coverage does not depend on eta."""
    covered = policies.find(policies.DEFAULT).with_noise()
    return {name: mechanisms.make(name, Level(1.0), covered) for name in MECHANISMS}


def _met(words: _Words) -> dict[str, NDArray[np.float64]]:
    """Return the occurrences of each class's members: Floats1d (members,) by class."""
    counts, clitic = words.vocabulary.counts, words.vocabulary.clitic
    met = weights_by_class(counts, clitic, None)
    met |= weights_by_class(counts, clitic, vocabularies.CLASS_TAGS)
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
    """Return the search of each class.

    Every mechanism searches all words and all clitics, because classes without words use them.
    """
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
            words.space[members], met[name], searched, end - len(members), choice=choice
        )

    stored = {}
    tasks = list(zip(words.classes, ends, strict=True))
    for done, ((name, _), found) in enumerate(zip(tasks, run(one, tasks), strict=True)):
        tell("indexing", done, len(tasks))
        stored[name] = found
    return stored


def _moves(mechanism: Mechanism, tag: str, clitic: bool, name: str) -> bool:
    """Return whether words move within the class ``name`` under ``mechanism``."""
    if mechanism.contextual == name.startswith(OWN):
        return False
    return mechanism.word_class(tag.removeprefix(OWN), clitic) == name


def _files(folder: Path) -> dict[str, StoredFile]:
    return {
        path.relative_to(folder).as_posix(): StoredFile(path.stat().st_size, file_hash(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
