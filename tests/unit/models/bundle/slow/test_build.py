"""A build gives a whole bundle, the same one each time, or a clear error."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.bundle.manifest import FULL_FINDER, Manifest, sha256
from sottovoce.core.bundle.signature import Signature
from sottovoce.core.errors import InvalidInput, NotFound, NotReady
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.names import LISTED, NameFinder
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.models import bundle as building
from sottovoce.models import calibration_attack as token_levels
from sottovoce.models.bundle import replacing
from tests.support.rough_levels import rough_levels


@pytest.fixture(scope="module", autouse=True)
def _rough() -> Iterator[None]:
    with rough_levels():
        yield


@pytest.fixture(scope="module")
def small_build(
    _rough: None, shipped_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    """A bundle of the default backbone's first 1,500 whole words."""
    folder = tmp_path_factory.mktemp("bundles") / "small"
    building.build(folder, models=shipped_models, words=1_500)
    return Bundle.open(folder)


_APART = """
import sys
for name in ("torch", "transformers", "peft", "scipy", "sottovoce.cloud"):
    sys.modules[name] = None  # importing it fails
from pathlib import Path
from sottovoce.models import bundle
from tests.support.rough_levels import rough_levels
with rough_levels():
    bundle.build(Path(sys.argv[1]), models=Path(sys.argv[2]), words=1_500, encoder=True)
"""


def test_it_is_built_where_there_is_no_torch(
    small_build: Bundle, shipped_models: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _APART, str(tmp_path / "apart"), str(shipped_models)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[5])
    apart = Bundle.open(tmp_path / "apart").manifest
    assert apart.files == small_build.manifest.files
    assert FULL_FINDER in {Path(name).name for name in apart.optional}


def test_the_device_can_use_it(small_build: Bundle) -> None:
    privatizer = Privatizer.of(small_build)
    text = "The old doctor didn't like the new house."
    for mechanism in ("pct2t.v2", "pct2t.v1", "t2t.v1"):
        random = np.random.default_rng(0)
        released = privatizer.release(text, Setting("strong", mechanism), random)
        assert released.text != text
        assert released.text.endswith(".")
        assert len(released.words) == 10


def test_the_manifest_describes_the_files(small_build: Bundle) -> None:
    manifest, folder = small_build.manifest, small_build.folder

    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(manifest.files) == present - {"manifest.json"}
    for path, stored in manifest.files.items():
        assert sha256(folder / path) == stored.sha256
    assert manifest.backbone.name == "all-MiniLM-L6-v2"
    assert manifest.tagset == UPOS
    assert manifest.dimensions == 16
    assert small_build.tokens.shape == (30_522, 16)
    assert manifest.words == len(small_build.words) == 1_507
    assert sum(manifest.shares.values()) == pytest.approx(1)
    assert manifest.shares["GRAMMAR"] > 0.2


def test_it_brings_the_cards_of_what_it_was_made_from(
    small_build: Bundle, shipped_models: Path
) -> None:
    """Licences and authors of the training texts go with the models."""
    brought = {
        path.stem: path.read_text("utf-8") for path in (small_build.folder / CARDS).iterdir()
    }
    assert set(brought) >= {"tagger", "names", "frequencies", "facts"}
    for part, card in brought.items():
        assert card == (shipped_models / part / "README.md").read_text("utf-8")
    assert "CC BY-SA 4.0" in brought["tagger"]
    assert all(f"{CARDS}/{part}.md" in small_build.manifest.files for part in brought)


def test_it_brings_what_finds_names(small_build: Bundle, shipped_models: Path) -> None:
    assert NameFinder.load(small_build.names_folder).reach > 0
    listed = np.load(small_build.names_folder / LISTED)
    assert listed.shape == (len(small_build.words), 64)
    assert NameFinder.load(small_build.names_folder, words=len(listed))
    for name in ("names.onnx", "names.json"):
        shipped = (shipped_models / "names" / name).read_bytes()
        assert (small_build.names_folder / name).read_bytes() == shipped


def test_classes_tile_the_members(small_build: Bundle) -> None:
    classes = sorted(small_build.manifest.classes.values(), key=lambda c: c.offset)
    ends = np.cumsum([c.words for c in classes])

    assert [c.offset for c in classes] == [0, *ends[:-1]]
    assert ends[-1] == len(small_build.members)


def test_every_mechanism_is_calibrated(small_build: Bundle) -> None:
    manifest = small_build.manifest
    for mechanism in ("pct2t.v2", "pct2t.v1", "t2t.v1"):
        assert set(manifest.calibration[mechanism]) == {"strong", "balanced", "light"}
        assert len(manifest.curve[mechanism]) >= 10


def test_a_second_build_is_the_same_bundle(
    small_build: Bundle, shipped_models: Path, tmp_path: Path
) -> None:
    stages: list[str] = []
    building.build(
        tmp_path / "again",
        models=shipped_models,
        words=1_500,
        sign=Ed25519PrivateKey.generate(),
        progress=lambda stage, done, total: stages.append(stage),
    )

    again = (tmp_path / "again" / "manifest.json").read_bytes()
    assert again == (small_build.folder / "manifest.json").read_bytes()
    signature = Signature.read(tmp_path / "again")
    assert signature is not None
    signature.check(again)
    in_turn = ["reading", "words", "calibrating", "indexing", "denoiser", "done"]
    assert list(dict.fromkeys(stages)) == in_turn


@pytest.fixture
def keeping(shipped_models: Path, tmp_path: Path) -> Path:
    """A models folder that keeps the levels of the small bundle."""
    models = tmp_path / "models"
    models.mkdir()
    for part in ("tagger", "frequencies", "facts", "names"):
        shutil.copytree(shipped_models / part, models / part)
    building.build(tmp_path / "measured", models=models, words=1_500, measure_levels=True)
    return models


def test_kept_levels_are_taken_for_the_same_words_alone(
    small_build: Bundle, keeping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(words: int) -> tuple[Manifest, bool]:
        stages: list[str] = []
        manifest = building.build(
            tmp_path / "again",
            models=keeping,
            words=words,
            progress=lambda stage, done, total: stages.append(stage),
        )
        return manifest, "calibrating" in stages

    assert built(1_500) == (small_build.manifest, False)
    assert built(1_400)[1]
    with monkeypatch.context() as patched:
        patched.setitem(building.NAMES, "balanced", 0.5)
        assert built(1_500)[1]
    with (keeping / "facts" / "words.tsv").open("a") as facts:
        facts.write("zymurgist\tmoney\n")
    assert built(1_500)[1]


@pytest.mark.parametrize("folder", ["tiny_decoder", "tiny_encoder_decoder"])
def test_other_backbones_build_too(
    folder: str, shipped_models: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(folder)
    manifest = building.build(
        tmp_path / "out", backbone=str(path), models=shipped_models, dimensions=8
    )
    built = Bundle.open(tmp_path / "out", backbone=path.name)

    assert built.space.shape == (manifest.words, 8)
    tagger = OnnxTagger.load(built.tagger_folder)
    released = Privatizer.of(built, tagger=lambda: tagger).release(
        "The coffee was good.", Setting("strong")
    )
    assert released.text.endswith(".")


def test_missing_models_are_named(tmp_path: Path, shipped_models: Path) -> None:
    with pytest.raises(NotReady, match=r"tagger.*--models"):
        building.build(tmp_path / "out", models=tmp_path)
    shutil.copytree(shipped_models / "tagger", tmp_path / "models" / "tagger")
    with pytest.raises(NotReady, match=r"frequencies.*--models"):
        building.build(tmp_path / "out", models=tmp_path / "models")
    shutil.copytree(shipped_models / "frequencies", tmp_path / "models" / "frequencies")
    with pytest.raises(NotReady, match=r"facts.*--models"):
        building.build(tmp_path / "out", models=tmp_path / "models")
    assert not (tmp_path / "out").exists()


def test_wrong_arguments_leave_nothing(tmp_path: Path, shipped_models: Path) -> None:
    with pytest.raises(NotFound, match="no backbone"):
        building.build(tmp_path / "out", backbone=str(tmp_path / "absent"), models=shipped_models)
    with pytest.raises(InvalidInput, match="between 2 and 384"):
        building.build(tmp_path / "out", models=shipped_models, dimensions=1_000)
    assert not any(tmp_path.iterdir())


@pytest.fixture
def unfinished(bundle: Bundle, tmp_path: Path) -> Path:
    for name in ("tokenizer.json", "vocabulary.txt", "tokens.npy", "token_prior.npy"):
        shutil.copyfile(bundle.folder / name, tmp_path / name)
    return tmp_path


def test_the_shipped_one_fits_the_default_bundle(
    bundle: Bundle, unfinished: Path, shipped_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_levels, "_DRAWS", 300)
    monkeypatch.setattr(token_levels, "_CONFIRMING", 300)
    levels = building.add_denoiser(
        shipped_models / "denoiser", unfinished, bundle.manifest.backbone
    )

    assert list(levels) == list(token_levels.LEVELS)
    assert Denoiser.load(unfinished / "denoisers", bundle).width == 384


def test_the_real_bundle_says_what_was_measured(bundle: Bundle) -> None:
    for name, wanted in token_levels.LEVELS.items():
        assert bundle.manifest.embed[name].map_attack == pytest.approx(wanted, abs=0.03)
    assert "denoisers/denoiser.onnx" in bundle.manifest.files


def test_another_space_gets_none(
    small_build: Bundle, unfinished: Path, shipped_models: Path
) -> None:
    shutil.copyfile(small_build.folder / "tokens.npy", unfinished / "tokens.npy")
    shipped = shipped_models / "denoiser"
    assert building.add_denoiser(shipped, unfinished, small_build.manifest.backbone) == {}
    assert not (unfinished / "denoisers").exists()
    assert small_build.manifest.embed == {}


def test_without_a_shipped_denoiser_there_are_no_levels(
    bundle: Bundle, unfinished: Path, tmp_path: Path
) -> None:
    assert building.add_denoiser(tmp_path / "none", unfinished, bundle.manifest.backbone) == {}


def _make(out: Path, content: str) -> None:
    with replacing(out, "marker") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_text(content)
        (made / "marker").touch()


def test_a_folder_is_made_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    _make(out, "first")
    (out / "stale").touch()
    _make(out, "second")

    assert (out / "inner" / "file").read_text() == "second"
    assert not (out / "stale").exists()
    assert list(out.parent.iterdir()) == [out]


def test_open_files_of_the_old_folder_stay_readable(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")
    with (out / "inner" / "file").open() as file:
        _make(out, "second")
        assert file.read() == "first"


def test_an_error_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")

    def fail() -> None:
        with replacing(out, "marker") as half:
            (half / "half").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (out / "inner" / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [out]


def test_other_folders_are_not_touched(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").touch()
    file = tmp_path / "file"
    file.touch()
    for path in (precious, file):
        with pytest.raises(InvalidInput, match="holds no marker"):
            _make(path, "no")
    assert (precious / "thesis").exists()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    _make(tmp_path / "out", "first")
    assert (tmp_path / "out" / "marker").exists()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with replacing(tmp_path / "out", "marker"), pytest.raises(NotReady, match="another process"):
        _make(tmp_path / "out", "second")


def _half(out: Path, told: Connection) -> None:
    with replacing(out, "marker") as folder:
        (folder / "half").touch()
        told.send("half")
        time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the child runs no other
def test_what_a_killed_run_leaves_is_swept_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _make(out, "first")
    told, tells = multiprocessing.Pipe()
    run = multiprocessing.get_context("fork").Process(target=_half, args=(out, tells))
    run.start()
    assert told.recv() == "half"
    run.kill()
    run.join()
    assert (out / "inner" / "file").read_text() == "first"

    _make(out, "second")
    assert (out / "inner" / "file").read_text() == "second"
    assert list(tmp_path.iterdir()) == [out]
