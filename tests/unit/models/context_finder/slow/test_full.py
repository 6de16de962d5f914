"""The finder `full`: training reads the sentence, and the graph computes what torch does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.bundle.full_finder import FullFinder, Pins
from sottovoce.core.bundle.manifest import ENCODER, FULL_FINDER
from sottovoce.core.errors import DataLoss
from sottovoce.core.text.context_finder import BREAK
from sottovoce.models import encoder
from sottovoce.models.context_finder.full import FullNetwork, Passage, learn, padded
from sottovoce.models.names_data import NONE
from tests.support.encoder_bundle import with_some_files

TEXTS = (
    "i told mia that will is coming",
    "Theresa May met Mrs Hope PRICE in Zagreb .",
    f"name : Rose {BREAK} surname : Long {BREAK} id : 400",
    "My doctor Will Kowalski prescribed ibuprofen 400 mg at Leeds Grove Surgery",
    "Answer in JSON and refactor this function",
)


@pytest.fixture(scope="module")
def default() -> LoadedBackbone:
    return backbones.load("default")


@pytest.fixture(scope="module")
def files() -> BackboneFiles:
    return BackboneFiles.open()


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory, files: BackboneFiles, small_bundle_folder: Path
) -> Path:
    """A bundle with the finder, over the vocabulary of the default backbone."""
    folder = with_some_files(small_bundle_folder, tmp_path_factory.mktemp("full") / "bundle")
    encoder.write_table(files, folder / ENCODER)
    encoder.write_tokenizer(files.tokenizer, folder)
    assert encoder.write_finder(files, folder / ENCODER, folder / "vocabulary.txt")
    return folder


@torch.inference_mode()
def by_torch(default: LoadedBackbone, words: list[str]) -> NDArray[np.float32]:
    network = FullNetwork(default).eval()
    network.restore(encoder.ADAPTER)
    ids, cases, first = network.pieces(words)
    likely = network(*padded([(ids, cases, first)]))[0].softmax(-1)[:, 1:].numpy()
    parts = np.split(likely[:-1], first)[1:]
    return np.stack([part[part[:, :3].sum(axis=1).argmax()] for part in parts])


@pytest.mark.parametrize("text", TEXTS)
def test_the_rounded_graph_agrees_with_torch(
    default: LoadedBackbone, written: Path, text: str
) -> None:
    words = [word or BREAK for word in text.replace(BREAK, "").split(" ")]
    finder = FullFinder.open(written / ENCODER, written / "vocabulary.txt")
    letters = [any(map(str.isalpha, word)) for word in words]
    found, wanted = finder.find(words)[letters], by_torch(default, words)[letters]
    apart = np.abs(found[:, :3].sum(axis=1) - wanted[:, :3].sum(axis=1))
    assert apart.max() < 0.3
    assert apart.mean() < 0.03


def test_the_graph_without_rounding_computes_the_same(
    default: LoadedBackbone, files: BackboneFiles
) -> None:
    from sottovoce.core.text.onnx_models import session

    words = TEXTS[3].split()
    network = FullNetwork(default).eval()
    network.restore(encoder.ADAPTER)
    ids, cases, _ = network.pieces(words)
    with torch.inference_mode():
        wanted = network(*padded([(ids, cases, [])]))[0].softmax(-1).numpy()
    graph = session(encoder.finder(files, int8=False))
    rows = network.model.embeddings.word_embeddings.weight[ids].numpy()
    feed = {"embeddings": rows, "cases": np.array(cases)}
    assert np.abs(graph.run(["likely"], feed)[0] - wanted).max() < 1e-4


def test_the_same_adapter_gives_the_bytes_that_devices_know(files: BackboneFiles) -> None:
    import hashlib

    network = encoder.finder(files)
    assert hashlib.sha256(network).hexdigest() == Pins.shipped().network


def test_one_changed_byte_of_a_weight_is_refused(written: Path) -> None:
    network = written / ENCODER / FULL_FINDER
    sound = network.read_bytes()
    assert FullFinder.open(written / ENCODER, written / "vocabulary.txt")
    try:
        network.write_bytes(sound[:9_000_000] + bytes([sound[9_000_000] ^ 1]) + sound[9_000_001:])
        with pytest.raises(DataLoss, match=FULL_FINDER):
            FullFinder.open(written / ENCODER, written / "vocabulary.txt")
    finally:
        network.write_bytes(sound)


def test_a_backbone_whose_finder_devices_would_refuse_gets_none(
    files: BackboneFiles, written: Path
) -> None:
    other = written.parent / "other"
    other.mkdir()
    encoder.write_table(files, other)
    (other / "vocabulary.txt").write_text("[UNK]\n")
    assert not encoder.write_finder(files, other, other / "vocabulary.txt")
    assert not (other / FULL_FINDER).exists()


def test_training_learns_what_only_the_neighbours_tell(default: LoadedBackbone) -> None:
    random = np.random.default_rng(3)
    drawn = [random.choice(("rose", "will", "may", "mark"), 2) for _ in range(800)]
    passages = [
        Passage(
            ("please", "ask", str(name), "about", "the", str(thing), "today"),
            (NONE, NONE, 2, NONE, NONE, NONE, NONE),
        )
        for name, thing in drawn
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = FullNetwork(default, rank=4)
    network = learn(network, passages, 5e-3, 1)
    ids, cases, first = network.pieces(["please", "ask", "will", "about", "the", "will", "today"])
    with torch.inference_mode():
        likely = network(*padded([(ids, cases, first)]))[0].softmax(-1)[first]
    assert likely[2, 1] > 0.8
    assert likely[5, 1] < 0.2
