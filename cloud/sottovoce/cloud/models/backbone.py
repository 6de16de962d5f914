"""Find and open the model that bundles, adapters and predictions are based on; its precision.

A bundle builder and a trainer must mean the same weights by the same name. A backbone is a folder
in the Hugging Face layout. The default is the MiniLM encoder, which is a Python package. The hash
of its safetensors files identifies a backbone, so a bundle is never used with another model.
Pickled weights are refused, because opening them runs code.

The backbone is frozen, so it needs no float32 copy. Processors with bfloat16 instructions run it
more than twice as fast. Trained parameters, softmax and losses stay in float32, and products are
computed in bfloat16 (PyTorch's autocast).

Frozen layers on a CPU can be multiplied by oneDNN, with weights laid out once.

A decoder needs no trained head: it already knows the likely words after "Answer:". `LabelWords`
compares the state of a cue's last token with the output embedding of each label's first token. With
few examples, this beats a head without pre-training (RAPT v2 section V-A uses it for Qwen2.5). A
common beginning of all labels becomes part of the cue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModel, AutoTokenizer, BitsAndBytesConfig, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from sottovoce.core.bundle.backbone import (
    hash_files,
    public_name,
    resolve,
    unreadable,
    weight_files,
)
from sottovoce.core.errors import InvalidInput


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a model's folder, without running code from the folder.

    Malformed files raise any error of their readers.
    """
    found = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    file = folder / "tokenizer.json"
    if file.is_file() and getattr(found, "is_fast", False):
        told = Tokenizer.from_file(str(file))
        if _parts(found.backend_tokenizer) != _parts(told):
            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return found


def _parts(tokenizer: Tokenizer) -> list[bytes | None]:
    """Return the parts that determine splitting and joining, each in the file's format."""
    parts = (
        tokenizer.model,
        tokenizer.normalizer,
        tokenizer.pre_tokenizer,
        tokenizer.decoder,
    )
    return [None if part is None else part.__getstate__() for part in parts]


@dataclass(frozen=True, slots=True)
class LoadedBackbone:
    """A model in memory, in evaluation mode and float32, and its identity.

    Attributes:
        name: the name in manifests and adapters; never a path of this machine.
        sha256: of the weight files, see `load`.
        model: a `transformers` model without a head.
        tokenizer: a fast tokenizer.
        folder: of its files on this machine; never written anywhere.
    """

    name: str
    sha256: str
    model: Any
    tokenizer: Any
    folder: Path

    @property
    def hidden_size(self) -> int:
        return int(self.model.config.hidden_size)

    @property
    def positions(self) -> int | None:
        """Number of positions; None if unlimited (T5)."""
        return getattr(self.model.config, "max_position_embeddings", None)


def load(name: str = "default", *, quantized: bool = False) -> LoadedBackbone:
    """Open an encoder, decoder or encoder-decoder by name or path.

    Args:
        name: see `sottovoce.core.bundle.backbone.resolve`.
        quantized: keep the weights in 4 bits (NF4), for QLoRA; see `Lora`.

    ``sha256`` covers the ``*.safetensors`` files in the order of their names, each as name, length
    and bytes.

    Raises:
        NotFound: the backbone does not exist.
        InvalidInput: the folder holds no safetensors weights, not all of them, no model that
            `transformers` can read, or no fast tokenizer.
    """
    folder = resolve(name)
    weights = weight_files(name, folder)
    try:
        tokenizer = load_tokenizer(folder)
        model, found = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            **(four_bits() if quantized else {"dtype": torch.float32}),
        )
    except Exception as error:  # readers raise errors of any kind on malformed files
        raise unreadable(name, error) from error
    # Many encoders are published without the pooler, which we do not use.
    if missing := [each for each in found["missing_keys"] if "pooler" not in each]:
        raise InvalidInput(
            f"backbone {public_name(name)!r} lacks {len(missing)} of its weights, {min(missing)}"
            " among them",
            fix="save the whole model with save_pretrained(folder)",
            subject="backbone",
        )
    if not getattr(tokenizer, "is_fast", False):
        raise InvalidInput(
            f"backbone {public_name(name)!r} has no tokenizer.json",
            fix="save its fast tokenizer beside the weights with save_pretrained(folder)",
            subject="backbone",
        )
    return LoadedBackbone(public_name(name), hash_files(weights), model.eval(), tokenizer, folder)


def input_embeddings(backbone: LoadedBackbone) -> NDArray[np.float32]:
    """Return a copy of the token embeddings: Floats2d (tokens, width).

    Rows after the tokenizer's last token are left out; some models add them to fill a block.
    """
    weight = backbone.model.get_input_embeddings().weight.detach()
    table: NDArray[np.float32] = weight[: len(backbone.tokenizer)].to(torch.float32).cpu().numpy()
    return table.copy()


def four_bits() -> dict[str, Any]:
    """Return QLoRA's settings for `from_pretrained` (Dettmers et al. 2023).

    NF4 weights, quantised scales, sums in bfloat16.
    """
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    place: int | str = 0 if torch.cuda.is_available() else "cpu"
    return {"quantization_config": settings, "device_map": {"": place}}


def fast_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16 products."""
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def to_bfloat16(module: nn.Module) -> None:
    """Convert the frozen parameters of ``module`` to bfloat16, in place."""
    for parameter in module.parameters():
        if not parameter.requires_grad and parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.bfloat16)


@contextmanager
def computing(encoder: nn.Module) -> Iterator[None]:
    """Set the number format for forward passes with gradients."""
    first = next(encoder.parameters())
    if first.is_cuda:
        with torch.autocast("cuda", torch.bfloat16):
            yield
    elif first.dtype == torch.bfloat16:
        # On a CPU the flash kernel's backward pass in bfloat16 takes more than half of the step.
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16):
            yield
    else:
        yield


WORTH: Final = 1.05
"""Minimum speed-up for the layout to be used."""

ROWS: Final = 256
_TIMES = 16


@torch.no_grad()
def pack(module: nn.Module, rows: int = ROWS) -> bool:
    """Speed up the frozen linear layers of ``module`` on a CPU, in place.

    Their weights become placeholders without memory. A layer that receives other weights, for
    example from `torch.func.functional_call`, uses those.

    Args:
        module: only its largest layer is timed.
        rows: approximate number of rows in a product.

    Returns:
        Whether the layers were changed.
    """
    layers = [found for found in module.modules() if type(found) is nn.Linear and _fits(found)]
    if not layers or not _faster(max(layers, key=lambda layer: layer.weight.numel()), rows):
        return False
    for layer in layers:
        weight = _laid_out(layer.weight)
        stand_in = nn.Parameter(layer.weight.new_zeros(()).expand(layer.weight.shape), False)
        layer.weight = stand_in
        layer.forward = partial(_forward, layer, weight, stand_in)  # type: ignore[method-assign]
    return True


def _fits(layer: nn.Linear) -> bool:
    weight = layer.weight
    return (
        weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.bfloat16)
        and not weight.requires_grad
    )


def _forward(layer: nn.Linear, weight: Tensor, stand_in: Tensor, inputs: Tensor) -> Tensor:
    if layer.weight is not stand_in:
        return F.linear(inputs, layer.weight, layer.bias)
    return _product(inputs, weight, layer.bias)


def _laid_out(weight: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return found


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return found


def _faster(layer: nn.Linear, rows: int) -> bool:
    """Return whether a layer like this becomes faster; False if PyTorch lacks the operations."""
    inputs = torch.randn(rows, layer.in_features).to(layer.weight.dtype)
    try:
        weight = _laid_out(layer.weight)
        ours, theirs = _least(
            lambda: _product(inputs, weight, layer.bias),
            lambda: F.linear(inputs, layer.weight, layer.bias),
        )
    except (AttributeError, RuntimeError):
        return False
    return theirs > WORTH * ours


def _least(*runs: Callable[[], Any]) -> list[float]:
    """Return the seconds of each one's quickest run; other load on the machine only adds time."""
    found = []
    for _ in range(_TIMES):
        for run in runs:
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return [min(found[place :: len(runs)]) for place in range(len(runs))]


CUE: Final = "\nAnswer:"
_OUTPUT: Final = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class LabelWords:
    """Token ids: of the cue, and of each label's word."""

    cue: tuple[int, ...]
    words: tuple[int, ...]

    @classmethod
    def of(cls, backbone: LoadedBackbone, labels: Sequence[str]) -> LabelWords:
        """Return each label's first token after the common beginning of all labels.

        Raises:
            InvalidInput: see `check_decoder`, or two labels begin with the same token.
        """
        check_decoder(backbone)

        def ids(text: str) -> list[int]:
            return list(backbone.tokenizer(text, add_special_tokens=False)["input_ids"])

        spelt = [ids(f" {label}") for label in labels]
        alike = takewhile(lambda column: len(set(column)) == 1, zip(*spelt, strict=False))
        shared = sum(1 for _ in alike)
        words = tuple(row[shared] for row in spelt if len(row) > shared)
        if len(set(words)) < len(labels):
            raise InvalidInput(
                "labels are told apart by their first token, and two have the same",
                fix="rename a label, or train a classification head: leave label words off",
                subject="training.label_words",
            )
        return cls((*ids(CUE), *spelt[0][:shared]), words)

    def weight(self, backbone: LoadedBackbone) -> Tensor:
        """Return the words' output embeddings: Float (labels, h)."""
        for file in sorted(backbone.folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                if _OUTPUT in opened.keys():  # noqa: SIM118 - no mapping
                    rows = opened.get_slice(_OUTPUT)
                    return torch.cat([rows[i : i + 1] for i in self.words]).float()
        # A model without output weights is tied: the input embeddings are its output weights.
        table: Tensor = backbone.model.get_input_embeddings().weight.detach()
        return table[list(self.words)].float().cpu()

    def described(self) -> dict[str, Any]:
        """Return the JSON form for an adapter's description."""
        return asdict(self)

    @classmethod
    def read(cls, facts: dict[str, Any]) -> LabelWords:
        """Return the words from the JSON form of `described`."""
        return cls(tuple(facts["cue"]), tuple(facts["words"]))


def check_decoder(backbone: LoadedBackbone) -> None:
    """Raise `InvalidInput` unless the backbone is a decoder."""
    config = backbone.model.config
    if config.is_encoder_decoder or config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise InvalidInput(
            "label words need a decoder (Qwen2.5, Llama, Mistral)",
            fix="train a classification head: leave label words off",
            subject="training.label_words",
        )
