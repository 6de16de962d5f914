"""The expected embedding behind a released word, held to simulation by the device's own code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sottovoce.cloud.job import Release
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models import noise_aware
from sottovoce.cloud.models.backbone import LoadedBackbone, input_embeddings
from sottovoce.cloud.models.noise_aware import (
    CLASS_COUNTS,
    UNSEEN,
    NoiseTable,
    WordPlaces,
    level_of,
    table,
)
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import NotFound, NotReady
from sottovoce.core.privacy.mechanisms import registry
from sottovoce.core.privacy.mechanisms.pct2t2 import PCT2T2
from sottovoce.core.privacy.mechanisms.t2t import T2T
from sottovoce.core.privacy.search import Search
from sottovoce.core.text.readings import READINGS
from tests.support.backbones import tiny_bert
from tests.support.tiny_bundle import tiny_bundle

ETA = 3.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, LoadedBackbone]:
    folder = tmp_path_factory.mktemp("noise")
    path = tiny_bert(folder / "bert")
    made = Bundle.open(tiny_bundle(folder / "bundle", path, counts=True))
    return made, backbones.load(str(path))


def t2t(eta: float = ETA) -> Release:
    return Release(T2T.name, eta, "level", "bundle", "content")


def word_rows(bundle: Bundle, loaded: LoadedBackbone) -> np.ndarray:
    tokens = input_embeddings(loaded)
    pieces = loaded.tokenizer(list(bundle.words), add_special_tokens=False)["input_ids"]
    return np.stack([tokens[ids].mean(axis=0) for ids in pieces])


def test_it_is_the_mean_over_simulated_originals(tiny: tuple[Bundle, LoadedBackbone]) -> None:
    bundle, loaded = tiny
    found = table(bundle, t2t(), loaded)
    rows = word_rows(bundle, loaded)
    random = np.random.default_rng(1)
    weights = np.load(bundle.folder / CLASS_COUNTS) + UNSEEN
    typed = random.choice(len(rows), 400_000, p=weights / weights.sum())
    noisy = T2T(ETA).perturb(bundle.space[typed], random, ["*"] * len(typed))
    received = Search(bundle).nearest("*", noisy)
    compared = 0
    for word in range(len(rows)):
        behind = rows[typed[received == word]]
        if len(behind) < 1_000:
            continue
        error = behind.std(axis=0) / len(behind) ** 0.5
        expected = rows[word] + found.shifts[word].float().numpy()
        # 32 numbers a word, some 35 words: 5 deviations are met by chance once in 1,500 runs; the
        # table draws some 4,000 vectors of its own, hence its share of the error.
        assert (np.abs(expected - behind.mean(axis=0)) < 5 * error + 0.02 * behind.std()).all()
        compared += 1
    assert compared > len(rows) / 2


def test_noise_decides_how_far_words_move(tiny: tuple[Bundle, LoadedBackbone]) -> None:
    bundle, loaded = tiny
    loud, soft, none = (
        table(bundle, t2t(eta), loaded).shifts.float() for eta in (1.0, 10.0, 500.0)
    )
    assert loud.square().mean() > soft.square().mean() > none.square().mean()
    assert none.abs().max() < 1e-2


def test_words_that_pass_as_typed_are_taken_as_they_are(small_build: Bundle) -> None:
    release = Release("pct2t.v1", 20.0, "level", small_build.id, "content")
    shifts = table(small_build, release, backbones.load()).shifts
    ids = small_build.word_ids
    assert shifts.shape == (small_build.manifest.words + 1, 384)
    assert shifts[ids["the"]].abs().max() < 0.02  # an article; rarely anything else
    assert shifts[ids["house"]].float().norm() > 0.1  # a noun is never sure
    everything = replace(release, policy="all")
    covered = table(small_build, everything, backbones.load()).shifts
    assert covered[ids["the"]].float().norm() > 10 * shifts[ids["the"]].float().norm()


def test_mixing_moves_the_mean_of_a_words_sub_tokens() -> None:
    shifts = torch.tensor([[1.0, 0.0], [0.0, 4.0], [0.0, 0.0]]).half()
    embeddings = torch.arange(8.0).reshape(1, 4, 2)
    words = torch.tensor([[-1, 1, 1, 0]])
    moved = NoiseTable(shifts, share=0.5).mix(embeddings, words) - embeddings
    assert moved.tolist() == [[[0, 0], [0, 2], [0, 2], [0.5, 0]]]
    assert NoiseTable(shifts, share=0.0).mix(embeddings, words).equal(embeddings)


def test_the_same_table_comes_out_of_the_cache_and_damage_is_mended(
    tiny: tuple[Bundle, LoadedBackbone], tmp_path: Path
) -> None:
    bundle, loaded = tiny
    made = table(bundle, t2t(), loaded, tmp_path)
    (file,) = tmp_path.iterdir()
    before = file.stat().st_mtime_ns
    assert table(bundle, t2t(), loaded, tmp_path).shifts.equal(made.shifts)
    assert file.stat().st_mtime_ns == before
    file.write_bytes(b"damaged")
    assert table(bundle, t2t(), loaded, tmp_path).shifts.equal(made.shifts)
    table(bundle, t2t(4.0), loaded, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_bundle_without_counts_is_refused(tmp_path: Path) -> None:
    path = tiny_bert(tmp_path / "bert")
    bundle = Bundle.open(tiny_bundle(tmp_path / "bundle", path))
    with pytest.raises(NotReady, match="how often") as caught:
        table(bundle, t2t(), backbones.load(str(path)))
    assert "build the bundle again" in caught.value.fix


def test_counts_of_a_class_are_those_of_its_members(small_build: Bundle) -> None:
    counts = noise_aware.class_counts(small_build)
    assert {name: len(each) for name, each in counts.items()} == {
        name: about.words for name, about in small_build.manifest.classes.items()
    }
    place = small_build.class_members("DET").tolist().index(small_build.word_ids["the"])
    assert counts["DET"][place] == counts["DET"].max() > 10_000


def test_sub_tokens_belong_to_words(small_build: Bundle) -> None:
    tokenizer = backbones.load().tokenizer
    text = "She'll pay £12.50, said the APRIL unlistedword!"
    found = tokenizer([text], return_offsets_mapping=True)
    (places,) = WordPlaces(small_build)([text], found["offset_mapping"])
    ids = small_build.word_ids
    words: dict[str, set[int]] = {}
    tokens = tokenizer.convert_ids_to_tokens(found["input_ids"][0])
    for token, place in zip(tokens, places, strict=True):
        words.setdefault(token, set()).add(place)
    assert words["she"] == {ids["she"]}
    assert words["'"] == words["ll"] == {ids["'ll"]}  # one word of two sub-tokens
    assert words["april"] == {ids["april"]}
    assert words["the"] == {ids["the"]}
    for token in ("[CLS]", "[SEP]", "£", "12", ".", ",", "!", "##ist"):
        assert words.get(token, {-1}) == {-1}


def test_a_space_before_a_word_may_be_part_of_its_sub_token(small_build: Bundle) -> None:
    # As byte-level tokenizers cut "the april": (0, 3), (3, 9).
    (places,) = WordPlaces(small_build)(["the april"], [[(0, 3), (3, 9)]])
    ids = small_build.word_ids
    assert places == (ids["the"], ids["april"])


def test_only_so_many_tables_are_kept(
    tiny: tuple[Bundle, LoadedBackbone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_aware, "KEPT", 3)
    for place in range(6):
        table(tiny[0], t2t(1.0 + place), tiny[1], tmp_path)
        newest = max(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        assert len(list(tmp_path.iterdir())) == min(place + 1, 3)
    before = newest.stat().st_mtime_ns
    table(tiny[0], t2t(6.0), tiny[1], tmp_path)
    assert newest.stat().st_mtime_ns == before, "the latest is among them"


def test_of_each_class_the_noise_of_its_own_eta_is_taken_back(
    small_build: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.MECHANISMS, PCT2T2.name, f"{PCT2T2.__module__}:{PCT2T2.__name__}")
    release = Release(PCT2T2.name, 1.0, "strong", small_build.id, "content")
    level = level_of(small_build, release)
    assert level == small_build.manifest.level(PCT2T2.name, "strong")
    assert level_of(small_build, t2t(7.0)).eta == 7.0
    with pytest.raises(NotFound, match="level"):
        level_of(small_build, replace(release, level="paranoid"))

    def shift(level: str) -> torch.Tensor:
        found = table(small_build, replace(release, level=level), backbones.load()).shifts.float()
        return found.square().sum(1)

    strong, light = shift("strong"), shift("light")
    nouns = torch.from_numpy(small_build.class_members("=NOUN").astype(np.int64))
    assert strong[nouns].mean() > 3 * light[nouns].mean() > 0
    # Of a reading that the policy lets pass nothing is suspected.
    passing = torch.from_numpy(np.flatnonzero(np.array(small_build.readings) == 5))
    assert READINGS[5] == "GRAMMAR"
    assert strong[passing].max() == 0
