"""Device and cloud compute the same, for every kind of adapter that travels."""

import json
import shutil
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import AdaptedModel, pool
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.models.rows import Row, prefix_width, run
from sottovoce.core.bundle import encoder as encoders
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.bundle.encoder import Additions, Encoder, Shape
from sottovoce.core.bundle.folder import ENCODER, Bundle
from sottovoce.core.bundle.tokenizer import open_tokenizer
from sottovoce.core.errors import BundleMismatch, DataLoss, InvalidInput, NotReady
from sottovoce.core.text import onnx_models
from sottovoce.models import encoder as device_encoder
from tests.support.backbones import ENCODERS, tiny_bert, tiny_decoder, tiny_encoder
from tests.support.encoder_bundle import offered, with_encoder
from tests.support.tiny_bundle import tiny_bundle

TEXTS = ("the river was cold and quiet", "a letter", "zzz", "", " ".join(["the garden"] * 300))


@pytest.fixture(scope="module")
def backbone_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("backbone") / "tiny")


@pytest.fixture(scope="module")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory, backbone_folder: Path) -> Path:
    return with_encoder(tmp_path_factory.mktemp("bundle") / "tiny", backbone_folder)


@pytest.fixture(scope="module")
def device(bundle_folder: Path) -> Encoder:
    return Encoder.load(Bundle.open(bundle_folder))


@pytest.fixture(scope="module")
def exact(
    bundle_folder: Path, backbone_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Encoder:
    """Return the network over a graph with unrounded matrices."""
    bundle = Bundle.open(bundle_folder)
    whole = Encoder.load(bundle)
    network = tmp_path_factory.mktemp("exact") / "encoder.onnx"
    network.write_bytes(device_encoder.export(BackboneFiles.open(str(backbone_folder))).network)
    return replace(whole, _session=encoders._session(str(network)))


def row_of(method: str, folder: Path, scale: float = 10) -> Row:
    """What an adapter of ``method`` brings into a pass, all of its numbers drawn."""
    options = TrainingOptions(method=method)
    model = AdaptedModel(backbones.load(str(folder)).model, from_options(options))
    random = torch.Generator().manual_seed(1)
    drawn = {
        name: scale * torch.randn(t.shape, generator=random)
        for name, t in model.adapted.tensors().items()
    }
    return from_options(options).row(backbones.load(str(folder)).model, drawn)


def additions(row: Row, shape: Shape) -> Additions:
    none = Additions.none(shape)
    updates = row.updates.packed if row.updates else None
    given = [
        empty if found is None else found.numpy()
        for empty, found in (
            (none.prompt, row.prompt),
            (none.prefix, row.prefix),
            (none.lora, updates),
        )
    ]
    return Additions(*given)


@torch.no_grad()
def wanted(folder: Path, text: str, row: Row) -> np.ndarray:
    loaded = backbones.load(str(folder))
    batch = collate(encode(loaded.tokenizer, [text]), loaded.tokenizer.pad_token_id)
    hidden = run(loaded.model, batch.ids, batch.attention, [row])
    found: np.ndarray = pool(hidden, batch.text)[0].numpy()
    return found


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize("method", ["head", "lora", "prompt", "prefix"])
def test_device_and_cloud_pool_the_same_states(
    device: Encoder, exact: Encoder, backbone_folder: Path, method: str
) -> None:
    row = Row() if method == "head" else row_of(method, backbone_folder)
    given = additions(row, device.shape)
    for text in TEXTS:
        torch_gives = wanted(backbone_folder, text, row)
        # What is left is the rounding of the table, and then of the matrices too.
        assert np.abs(exact.pooled(text, given) - torch_gives).max() < 0.05
        assert cosine(exact.pooled(text, given), torch_gives) > 0.9998
        assert cosine(device.pooled(text, given), torch_gives) > 0.998
    alone = exact.pooled(TEXTS[0], Additions.none(device.shape))
    heard = np.abs(exact.pooled(TEXTS[0], given) - alone).max()
    assert (heard > 0.1) == (method != "head")


def test_rounding_costs_the_default_backbone_little(tmp_path: Path) -> None:
    files = BackboneFiles.open()
    exact = device_encoder.export(files).network
    found = device_encoder.write(files, tmp_path / "encoder", compare=True)
    assert found.difference is not None
    assert found.difference < 1e-4
    assert 0.998 < found.cosine < 0.9999
    rounded = (tmp_path / "encoder" / "encoder.onnx").read_bytes()
    assert len(rounded) < 0.3 * len(exact)
    table = np.load(tmp_path / "encoder" / "table.npy")
    assert table.nbytes == 30_522 * (files.hidden_size + 4)


def test_a_backbone_that_rounding_spoils_is_refused(
    backbone_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_encoder, "LEAST_COSINE", 1.1)
    with pytest.raises(InvalidInput, match="rounded to bytes"):
        device_encoder.write(BackboneFiles.open(str(backbone_folder)), tmp_path / "encoder")


def test_a_decoder_is_no_encoder_for_devices(tmp_path: Path) -> None:
    files = BackboneFiles.open(str(tiny_decoder(tmp_path / "tiny")))
    with pytest.raises(InvalidInput, match="qwen2"):
        device_encoder.write(files, tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()


def test_places_told_by_their_distance_are_no_places_for_devices(
    backbone_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(backbone_folder, tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    told = config | {"position_embedding_type": "relative_key"}
    (folder / "config.json").write_text(json.dumps(told))
    with pytest.raises(InvalidInput, match="relative_key"):
        device_encoder.write(BackboneFiles.open(str(folder)), tmp_path / "encoder")


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": 3},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": 5},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": "2"},
        {"layer_norm_eps": "x"},
        {"max_position_embeddings": 10**12},
        {"max_position_embeddings": 299},
        {"max_position_embeddings": None},
        {"hidden_size": 64},
        {"hidden_act": "relu"},
        {"is_decoder": True},
    ],
)
def test_a_configuration_that_its_tensors_do_not_fit_is_refused(
    backbone_folder: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    folder = shutil.copytree(backbone_folder, tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(InvalidInput) as caught:
        device_encoder.write(BackboneFiles.open(str(folder)), tmp_path / "encoder")
    assert caught.value.subject == "backbone"
    assert not (tmp_path / "encoder").exists()


def test_tensors_of_another_shape_are_refused(backbone_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(backbone_folder, tmp_path / "tiny")
    tensors = load_file(folder / "model.safetensors")
    for name in ("encoder.layer.1.output.dense.weight", "embeddings.token_type_embeddings.weight"):
        changed = tensors | {name: np.ascontiguousarray(tensors[name].T)}
        save_file(changed, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(InvalidInput, match="cannot be an encoder"):
            device_encoder.write(BackboneFiles.open(str(folder)), tmp_path / "encoder")


def test_names_of_former_checkpoints_are_read(backbone_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(backbone_folder, tmp_path / "tiny")
    former = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def then(name: str) -> str:
        for now, before in former.items():
            name = name.replace(now, before)
        return f"bert.{name}"

    tensors = load_file(folder / "model.safetensors")
    told = {then(name): value for name, value in tensors.items()}
    save_file(told, folder / "model.safetensors", {"format": "pt"})
    files = [BackboneFiles.open(str(each)) for each in (folder, backbone_folder)]
    first, second = (device_encoder.export(each).network for each in files)
    assert first == second


@pytest.mark.parametrize("name", ["encoder.json", "encoder.onnx", "table.npy"])
def test_a_flipped_bit_is_found_and_the_file_is_named(
    bundle_folder: Path, tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    file = folder / ENCODER / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataLoss, match=name):
        Encoder.load(Bundle.open(folder))
    file.unlink()
    with pytest.raises(DataLoss, match=name):
        Encoder.load(Bundle.open(folder))


def test_a_device_that_did_not_fetch_it_is_told_how(bundle_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    shutil.rmtree(folder / ENCODER)
    with pytest.raises(NotReady, match="pull --encoder"):
        Encoder.load(Bundle.open(folder))


def test_a_bundle_without_one_says_who_can_help(backbone_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="build-bundle --encoder"):
        Encoder.load(Bundle.open(tiny_bundle(tmp_path / "bundle", backbone_folder)))


def test_an_encoder_of_another_backbone_is_refused(bundle_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    file = folder / ENCODER / "encoder.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"backbone_sha256": "0" * 64}))
    offered(folder)
    with pytest.raises(BundleMismatch, match="another backbone"):
        Encoder.load(Bundle.open(folder))


@pytest.mark.parametrize(
    "change",
    [
        {"width": 0},
        {"tokens": 1 << 40},
        {"longest": 2},
        {"positions": 4},
        {"before": [-1]},
        {"layers": [["q", 4, 4]] * 2000},
        {"layers": [["q", 0, 4]]},
        {"prefix": "many"},
        {"prefix": -1},
        {"surprise": 1},
    ],
)
def test_a_description_out_of_bounds_is_refused_by_name(
    bundle_folder: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    file = folder / ENCODER / "encoder.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    offered(folder)
    with pytest.raises(DataLoss, match=r"encoder\.json"):
        Encoder.load(Bundle.open(folder))


def test_what_is_checked_is_what_runs(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(bundle_folder, tmp_path / "bundle")
    bundle = Bundle.open(folder)
    clear = Encoder.load(bundle).pooled("the river", Additions.none(Encoder.load(bundle).shape))
    opened = encoders._session

    def swapped(path: str) -> object:
        for name in ("encoder.onnx", "table.npy"):  # as if pulled anew at this moment
            (tmp_path / name).write_bytes(b"another")
            (tmp_path / name).rename(folder / ENCODER / name)
        return opened(path)

    monkeypatch.setattr(encoders, "_session", swapped)
    encoder = Encoder.load(bundle)
    found = encoder.pooled("the river", Additions.none(encoder.shape))
    assert np.array_equal(found, clear)


OPTIMUM = pytest.mark.skipif(
    find_spec("optimum") is None,
    reason="optimum is not installed: pip install 'sottovoce-models[export]'",
)


@dataclass(frozen=True)
class Exported:
    """What optimum made of a tiny encoder, as devices read it and before its rounding."""

    backbone: Path
    agreement: device_encoder.Agreement
    device: Encoder
    exact: Encoder


@pytest.fixture(scope="module", params=ENCODERS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp(request.param)
    files = BackboneFiles.open(str(tiny_encoder(request.param, folder / "tiny")))
    agreement = device_encoder.write(files, folder / "encoder", "optimum")
    device = Encoder.open(folder / "encoder", open_tokenizer(folder / "tiny" / "tokenizer.json"))
    whole = folder / "exact.onnx"
    whole.write_bytes(device_encoder.export(files, "optimum").network)
    exact = replace(device, _session=encoders._session(str(whole)))
    return Exported(folder / "tiny", agreement, device, exact)


@OPTIMUM
@pytest.mark.parametrize("method", ["head", "lora", "prompt"])
def test_device_and_cloud_pool_the_same_states_of_other_encoders(
    exported: Exported, method: str
) -> None:
    row = Row() if method == "head" else row_of(method, exported.backbone, scale=0.2)
    given = additions(row, exported.device.shape)
    assert exported.agreement.difference < 1e-5
    for text in TEXTS:
        torch_gives = wanted(exported.backbone, text, row)
        # What is left is the rounding of the table, and then of the matrices too.
        assert cosine(exported.exact.pooled(text, given), torch_gives) > 0.9998
        assert cosine(exported.device.pooled(text, given), torch_gives) > 0.995
    alone = exported.exact.pooled(TEXTS[0], Additions.none(exported.device.shape))
    heard = np.abs(exported.exact.pooled(TEXTS[0], given) - alone).max()
    assert (heard > 1e-3) == (method != "head")


@OPTIMUM
def test_adapters_travel_to_other_encoders_unless_they_have_prefixes(exported: Exported) -> None:
    model = backbones.load(str(exported.backbone)).model
    names = targets(model, False)
    shape = exported.device.shape
    assert tuple(layer.name for layer in shape.layers) == tuple(names)
    # As the cloud writes it, whatever exporter the encoder is from.
    none = Additions(
        *(np.zeros((0, n), np.float32) for n in (32, prefix_width(model.config), shape.lora))
    )
    lora = additions(row_of("lora", exported.backbone), shape).lora
    weight, bias = np.ones((1, shape.width), np.float32), np.zeros(1, np.float32)
    adapter = LocalAdapter(
        ("yes",), shape.backbone_sha256, tuple(names), replace(none, lora=lora), weight, bias
    )
    adapter.check(shape)
    assert adapter.scores(exported.device, TEXTS[0]) == [("yes", 1.0)]
    prefixed = replace(none, lora=lora, prefix=np.ones((2, none.prefix.shape[1]), np.float32))
    with pytest.raises(BundleMismatch, match="does not fit"):
        replace(adapter, additions=prefixed).check(shape)


@OPTIMUM
def test_optimum_gives_the_same_bytes_again(tmp_path: Path) -> None:
    files = BackboneFiles.open(str(tiny_encoder("roberta", tmp_path / "tiny")))
    first, second = (device_encoder.export(files, "optimum").network for _ in range(2))
    assert first == second


@OPTIMUM
def test_optimum_exports_no_decoder(tmp_path: Path) -> None:
    files = BackboneFiles.open(str(tiny_decoder(tmp_path / "tiny")))
    with pytest.raises(InvalidInput, match="no text encoder"):
        device_encoder.write(files, tmp_path / "encoder", "optimum")
    assert not (tmp_path / "encoder").exists()


@OPTIMUM
def test_a_graph_that_devices_would_refuse_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = BackboneFiles.open(str(tiny_encoder("modernbert", tmp_path / "tiny")))
    fewer = {"": onnx_models.OPERATORS[""] - {"Cos"}, "com.microsoft": {"MatMulNBits"}}
    monkeypatch.setattr(onnx_models, "OPERATORS", fewer)
    with pytest.raises(InvalidInput, match="'Cos'"):
        device_encoder.write(files, tmp_path / "encoder", "optimum")
    assert not (tmp_path / "encoder").exists()


def test_without_optimum_its_exporter_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optimum", None)
    monkeypatch.setitem(sys.modules, "optimum.exporters.onnx", None)
    files = BackboneFiles.open(str(tiny_encoder("distilbert", tmp_path / "tiny")))
    with pytest.raises(NotReady, match=r"sottovoce-models\[export\]"):
        device_encoder.write(files, tmp_path / "encoder", "optimum")
    with pytest.raises(InvalidInput, match="--exporter optimum"):
        device_encoder.write(files, tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
