"""How do our encoder export and optimum's compare in size, accuracy and speed?

Both export the default backbone for ONNX Runtime. optimum's versions are float32, and 8 bits with a
scale for each matrix or each channel. Ours has a scale for every 128 numbers, and keeps the token
table beside the graph. For each export it prints the size, the cosine with torch's output for news
texts with the same token ids, and the time of a text. The graphs take turns on one thread. Times
are medians of its processor time.

optimum comes with the extra `export`:

    make export
    python -m bench.exporters
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from bench import console
from bench.console import Figures, table
from bench.data import require
from bench.utility.tasks import files, load
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.local.encoder import DESCRIPTION, NETWORK, TABLE, Shape
from sottovoce.core.platform.memory import map_array
from sottovoce.core.text.onnx_models import runtime, session
from sottovoce.models import encoder as device_encoder

__all__ = ["main", "measure", "optimums", "ours"]

_TASK: Final = "agnews"
_TEXTS: Final = 1_000
_TIMED: Final = 100
_TOKENS: Final = 25
_ROUNDS: Final = 5
_LONGEST: Final = 256

_Pooled = Callable[[Sequence[int]], NDArray[np.float32]]
"""A function from token ids to the mean state of a text."""


def optimums(backbone: LoadedBackbone, folder: Path) -> dict[str, Path]:
    """Export the backbone with optimum into ``folder``; return the graphs by their rounding."""
    from optimum.exporters.onnx import onnx_export_from_model
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig as Rounding

    whole = folder / "float32"
    onnx_export_from_model(backbone.model, whole, task="feature-extraction")
    ways = {
        "int8 (AVX2), a scale a matrix": Rounding.avx2(is_static=False, per_channel=False),
        "int8 (AVX2), a scale a channel": Rounding.avx2(is_static=False, per_channel=True),
        "int8 (VNNI), a scale a channel": Rounding.avx512_vnni(is_static=False, per_channel=True),
    }
    found = {"float32": whole}
    for place, (name, way) in enumerate(ways.items()):
        found[name] = folder / str(place)
        quantizer = ORTQuantizer.from_pretrained(whole)
        quantizer.quantize(save_dir=found[name], quantization_config=way)
    return {f"optimum, {name}": next(each.glob("*.onnx")) for name, each in found.items()}


def _theirs(file: Path) -> _Pooled:
    options = {"providers": ["CPUExecutionProvider"]}
    opened = runtime().InferenceSession(file, **options)  # of operators that no device admits
    asked = {each.name for each in opened.get_inputs()}

    def pooled(ids: Sequence[int]) -> NDArray[np.float32]:
        feed = {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "token_type_ids": np.zeros((1, len(ids)), np.int64),
        }
        (states,) = opened.run(None, {name: feed[name] for name in asked})
        mean: NDArray[np.float32] = states[0].mean(0)
        return mean

    return pooled


def ours(folder: Path) -> _Pooled:
    """Open our export, without an adapter and over all tokens, as optimum's."""
    opened = session(str(folder / NETWORK))
    rows_of: NDArray[np.int8] = map_array(folder / TABLE)
    facts = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    facts.pop("format")
    shape = Shape.decode(facts)
    nothing = {"lora": (0, shape.lora), "prefix": (0, shape.prefix)}
    none = {name: np.zeros(size, np.float32) for name, size in nothing.items()}

    def pooled(ids: Sequence[int]) -> NDArray[np.float32]:
        rows = rows_of[ids]
        scales = np.ascontiguousarray(rows[:, shape.width :]).view("<f4")
        weights = np.full(len(ids), 1 / len(ids), np.float32)
        feed = {"embeddings": rows[:, : shape.width] * scales, "weights": weights, **none}
        mean: NDArray[np.float32] = opened.run(["pooled"], feed)[0]
        return mean

    return pooled


@torch.no_grad()
def _torchs(backbone: LoadedBackbone, ids: Sequence[int]) -> NDArray[np.float32]:
    states = backbone.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    mean: NDArray[np.float32] = states.mean(0).numpy()
    return mean


def measure(sides: dict[str, _Pooled], backbone: LoadedBackbone, texts: Sequence[str]) -> Figures:
    """Of each side the cosines with torch, mean and least, and milliseconds of a short text."""
    cut = backbone.tokenizer(list(texts), truncation=True, max_length=_LONGEST)["input_ids"]
    wanted = [_torchs(backbone, ids) for ids in console.track(cut, "by torch")]
    found: Figures = {}
    for name, pooled in sides.items():
        made = [pooled(ids) for ids in console.track(cut, name)]
        cosines = [
            float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
            for one, other in zip(made, wanted, strict=True)
        ]
        found[name] = {"cosine": {"mean": float(np.mean(cosines)), "least": min(cosines)}}
    timed = [ids[:_TOKENS] for ids in cut if len(ids) >= _TOKENS][:_TIMED]
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in console.track(range(_ROUNDS), "taking turns"):
        for ids in timed:
            for name, pooled in sides.items():
                began = time.process_time()
                pooled(ids)
                times[name].append(1e3 * (time.process_time() - began))
    for name, taken in times.items():
        found[name]["milliseconds"] = statistics.median(taken)
    return found


def main() -> None:
    """Export with both, compare, and print the table."""
    parser = console.parser("exporters", __doc__, data="news to compare over")
    arguments = parser.parse_args()
    require(parser, arguments.data, *files([_TASK]))
    try:
        import optimum.onnxruntime  # noqa: F401
    except ImportError as error:
        parser.error(f"{error}; `python -m bench.exporters --help` says how to have optimum")
    torch.set_num_threads(1)
    backbone = backbones.load()
    texts = [" ".join(parts) for parts in load(_TASK, arguments.data, _TEXTS).train.texts]
    with tempfile.TemporaryDirectory() as scratch:
        with console.STEPS.status("exporting by both"):
            files_of = optimums(backbone, Path(scratch) / "optimum")
            folder = Path(scratch) / "ours"
            device_encoder.write(backbone, folder)
        sizes = {name: file.stat().st_size for name, file in files_of.items()}
        sides = {name: _theirs(file) for name, file in files_of.items()}
        name = "ours, a scale for 128 numbers, with its table"
        sizes[name] = sum(each.stat().st_size for each in folder.iterdir())
        sides[name] = ours(folder)
        found = measure(sides, backbone, texts)
    for name, size in sizes.items():
        found[name]["bytes"] = size
    versions = console.versions("optimum", "optimum-onnx", "transformers", "onnxruntime")
    figures = {"texts": len(texts), "versions": versions, "graphs": found}
    shown = table(
        f"the default backbone for ONNX Runtime, {len(texts):,} texts",
        ("graph",),
        ("MB", "mean cosine with torch", "the least", f"ms of {_TOKENS} tokens"),
        (
            (
                name,
                f"{each['bytes'] / 1e6:.1f}",
                f"{each['cosine']['mean']:.4f}",
                f"{each['cosine']['least']:.4f}",
                f"{each['milliseconds']:.1f}",
            )
            for name, each in found.items()
        ),
    )
    console.publish(arguments, figures, shown)


if __name__ == "__main__":
    main()
