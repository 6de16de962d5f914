"""The shipped denoiser: fits its bundle and no other, and answers with and without a cloud."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import EmbedLevel
from sottovoce.core.bundle.tokenizer import VOCABULARY, without_vocabulary
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput, NotReady
from sottovoce.core.platform.schema import decode, parse_object
from sottovoce.core.privacy.denoiser import Denoiser, Facts, misfit, space_sketch, vocabulary_hash
from tests.support.paths import MODELS

SHIPPED = MODELS / "denoiser"


@pytest.fixture(scope="module")
def denoiser(bundle: Bundle) -> Denoiser:
    return Denoiser.load(bundle.denoiser_folder, bundle)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the shipped folder, to be spoilt."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "denoiser"))


def ids_of(bundle: Bundle, text: str) -> list[int]:
    found: list[int] = bundle.tokenizer.ids(text)
    return found


def unit(seed: int, width: int) -> np.ndarray:
    row = np.random.default_rng(seed).standard_normal(width).astype(np.float32)
    return row / np.linalg.norm(row)


def change(folder: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "denoiser.json"
    facts = json.loads(file.read_text())
    alter(facts)
    file.write_text(json.dumps(facts))


def test_the_bundle_carries_what_ships(bundle: Bundle) -> None:
    for file in ("denoiser.json", "denoiser.onnx", "table.npy"):
        assert (bundle.denoiser_folder / file).read_bytes() == (SHIPPED / file).read_bytes()
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 8_000_000


def test_every_level_is_within_range(bundle: Bundle, denoiser: Denoiser) -> None:
    low, high = denoiser.eta_range
    assert list(bundle.manifest.embed) == ["strong", "balanced", "light"]
    assert all(low <= level.eta <= high for level in bundle.manifest.embed.values())


@pytest.mark.parametrize("length", [1, 2, 30, 510])
def test_embeddings_have_length_one(bundle: Bundle, denoiser: Denoiser, length: int) -> None:
    ids = np.random.default_rng(length).integers(1_000, 28_000, length).tolist()
    local = denoiser.local(ids)
    helped = denoiser.denoise(ids, unit(0, denoiser.width), bundle.manifest.embed["light"].eta)

    for found in (local, helped):
        assert found.shape == (denoiser.width,)
        assert found.dtype == np.float32
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-4)
    assert local @ helped < 0.999  # the answer is heard


def test_the_lighter_the_noise_the_more_the_answer_counts(
    bundle: Bundle, denoiser: Denoiser
) -> None:
    ids = ids_of(bundle, "The train to the coast was late again this morning.")
    answer = unit(3, denoiser.width)
    near = [
        float(denoiser.denoise(ids, answer, level.eta) @ answer)
        for level in bundle.manifest.embed.values()
    ]
    assert near == sorted(near)
    assert near[-1] > near[0] + 0.01


def test_like_texts_are_alike_without_a_cloud(bundle: Bundle, denoiser: Denoiser) -> None:
    one, same, other = (
        denoiser.local(ids_of(bundle, text))
        for text in (
            "The doctor gave her a new medicine for the cough.",
            "A physician prescribed some drugs against coughing.",
            "Share prices fell after the bank raised interest rates.",
        )
    )
    assert one @ same > one @ other + 0.2


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (lambda facts: facts["backbone"].update(sha256="0" * 64), "other weights"),
        (lambda facts: facts.update(vocabulary="0" * 64), "another vocabulary"),
        (lambda facts: facts["space"].update(dimensions=7), "another privacy space"),
        (lambda facts: facts["space"]["sketch"].reverse(), "another privacy space"),
        (lambda facts: facts.update(eta=[900, 950]), "not of 'strong'"),
        (lambda facts: facts.update(format="denoiser.v0"), "format"),
    ],
)
def test_a_denoiser_for_something_else_is_refused(
    bundle: Bundle, copied: Path, alter: Callable[[dict[str, Any]], object], says: str
) -> None:
    change(copied, alter)
    with pytest.raises(BundleMismatch, match=says) as caught:
        Denoiser.load(copied, bundle)
    assert caught.value.subject == "denoiser"
    assert "sotto pull" in caught.value.fix


def test_a_level_it_does_not_know_is_refused(bundle: Bundle) -> None:
    embed = {"faint": EmbedLevel(1e-3, 0.0)}
    other = Bundle(bundle.folder, replace(bundle.manifest, embed=embed), bundle.id)
    with pytest.raises(BundleMismatch, match="faint"):
        Denoiser.load(SHIPPED, other)


def test_eta_out_of_range_is_refused(denoiser: Denoiser) -> None:
    low, high = denoiser.eta_range
    for eta in (low * 0.99, high * 1.01, float("nan")):
        with pytest.raises(BundleMismatch, match="eta"):
            denoiser.denoise([2_000], unit(0, denoiser.width), eta)


def test_answers_that_are_none_are_refused(denoiser: Denoiser) -> None:
    eta = denoiser.eta_range[1]
    with pytest.raises(InvalidInput) as shape:
        denoiser.denoise([2_000], unit(0, denoiser.width - 1), eta)
    assert shape.value.subject == "answer"
    for bad in (np.nan, np.inf):
        answer = unit(0, denoiser.width)
        answer[5] = bad
        with pytest.raises(DataLoss):
            denoiser.denoise([2_000], answer, eta)


@pytest.mark.parametrize("ids", [[], [-1], [1 << 20]])
def test_ids_outside_the_table_are_refused(denoiser: Denoiser, ids: list[int]) -> None:
    with pytest.raises(InvalidInput) as caught:
        denoiser.local(ids)
    assert caught.value.subject == "ids"


@pytest.mark.parametrize("file", ["denoiser.onnx", "table.npy", "denoiser.json"])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_damaged_files_are_refused(bundle: Bundle, copied: Path, file: str, how: str) -> None:
    target = copied / file
    if how == "cut":
        target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
    else:
        target.unlink()
    absent = (file, how) == ("denoiser.json", "gone")
    with pytest.raises(NotReady if absent else DataLoss):
        Denoiser.load(copied, bundle)


def test_a_description_without_a_part_is_damage(bundle: Bundle, copied: Path) -> None:
    change(copied, lambda facts: facts.pop("space"))
    with pytest.raises(DataLoss):
        Denoiser.load(copied, bundle)


def test_sketches_ignore_the_axes_and_tell_spaces_apart() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((500, 8)).astype(np.float32)
    turn, _ = np.linalg.qr(random.standard_normal((8, 8)))
    turned = (rows @ turn).astype(np.float32) * 2
    np.testing.assert_allclose(space_sketch(turned), space_sketch(rows), atol=1e-3)
    other = random.standard_normal((500, 8)).astype(np.float32)
    assert np.abs(np.array(space_sketch(other)) - space_sketch(rows)).max() > 0.1


def test_the_vocabulary_s_hash_ignores_how_the_file_is_written(tmp_path: Path) -> None:
    tokens = ["[UNK]", "doctor", "##s", "人"]

    def written(name: str, vocabulary: list[str]) -> Path:
        whole = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocabulary)}))
        (tmp_path / name).mkdir()
        file = tmp_path / name / "tokenizer.json"
        whole.save(str(file))
        return file

    whole, other = written("whole", tokens), written("other", [*tokens[:2], "人", "##s"])
    saved, lines = without_vocabulary(whole.read_text())
    apart = tmp_path / "apart"
    apart.mkdir()
    (apart / "tokenizer.json").write_text(saved)
    (apart / VOCABULARY).write_text("".join(f"{line}\n" for line in lines or ()))
    assert vocabulary_hash(apart / "tokenizer.json") == vocabulary_hash(whole)
    assert vocabulary_hash(other) != vocabulary_hash(whole)


def test_a_small_difference_of_machines_is_no_other_space(bundle: Bundle) -> None:
    _, raw = parse_object((SHIPPED / "denoiser.json").read_bytes())
    facts = decode(Facts, raw, more=True)
    moved = np.asarray(bundle.tokens) * np.float32(1 + 1e-5)
    assert misfit(facts, bundle.manifest.backbone, bundle.tokenizer_file, moved) == ""


def test_it_adds_little_memory_to_a_device(bundle_folder: Path) -> None:
    """Twelve megabytes at most over an agent that has a tagger and a tokenizer open."""
    script = """
import sys
from pathlib import Path
import numpy as np
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.text.tagger import OnnxTagger

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("VmRSS")) / 1024

bundle = Bundle.open(Path(sys.argv[1]))
bundle.tokenizer
OnnxTagger.load(bundle.tagger_folder).tag(["words"])
before = resident()
denoiser = Denoiser.load(bundle.denoiser_folder, bundle)
answer = np.full(denoiser.width, denoiser.width ** -0.5, np.float32)
for n in (5, 40, 510):
    denoiser.denoise(list(range(2000, 2000 + n)), answer, denoiser.eta_range[1])
print(resident() - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", script, str(bundle_folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 12
