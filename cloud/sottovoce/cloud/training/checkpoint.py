"""Where a training run stands, as one safetensors file that is never half there.

Weights, optimiser moments and the best weights so far live in one file, because
one ``os.replace`` then changes them together. Nothing is pickled, so reading a
checkpoint cannot run code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.core.platform.files import in_place_of

__all__ = ["Checkpoint", "Weights"]

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Weights(Protocol):
    """Whatever is trained, by name."""

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Copies back what `trained` gave, all of it or a part."""


def _copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().to("cpu", copy=True) for name, t in state.items()}


@dataclass(slots=True)
class Checkpoint:
    """Steps done, how many of them at the last look at the held-out part, the best weights so far
    and their held-out accuracy and loss."""

    step: int
    scored: int
    best: dict[str, Tensor]
    accuracy: float
    loss: float
    _tensors: dict[str, Tensor]

    @classmethod
    def first(cls, weights: dict[str, Tensor], accuracy: float, loss: float) -> Checkpoint:
        """The start of a run."""
        return cls(0, 0, _copy(weights), accuracy, loss, {})

    def keep_best(self, weights: dict[str, Tensor], accuracy: float, loss: float) -> None:
        """Takes ``weights``, those of now, as the best unless those kept are better."""
        self.scored = self.step
        if (accuracy, -loss) >= (self.accuracy, -self.loss):
            self.best, self.accuracy, self.loss = _copy(weights), accuracy, loss

    @classmethod
    def load(cls, file: Path, identity: str) -> Checkpoint | None:
        """The checkpoint in ``file``; None if there is none for this very run."""
        try:
            with safe_open(file, framework="pt") as opened:
                facts = opened.metadata()
                if facts.get("identity") != identity:
                    return None
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        best = {name[5:]: t for name, t in tensors.items() if name.startswith("best.")}
        step = int(facts["step"])
        return cls(
            step,
            int(facts.get("scored", step)),  # an earlier version saved after it had looked
            best,
            float(facts["accuracy"]),
            float(facts["loss"]),
            tensors,
        )

    def into(self, model: Weights, optimizer: torch.optim.Optimizer) -> None:
        """Puts weights and moments back where they were."""
        weights = model.trained()
        model.restore({name: self._tensors[f"model.{name}"] for name in weights})
        for name, parameter in weights.items():
            moments = {key: self._tensors.get(f"{key}.{name}") for key in _MOMENTS}
            optimizer.state[parameter] = {
                # AdamW counts its steps on the CPU.
                key: t.clone() if key == "step" else t.to(parameter.device, copy=True)
                for key, t in moments.items()
                if t is not None
            }
        self._tensors = {}

    def save(
        self, file: Path, identity: str, model: Weights, optimizer: torch.optim.Optimizer
    ) -> None:
        """Writes the whole state; a crash leaves the old file or the new one. What the
        folder lies in must be there: a place that another worker took over is not made again.

        Raises:
            Unavailable: the disk is full.
        """
        tensors = {f"best.{name}": t for name, t in self.best.items()}
        for name, parameter in model.trained().items():
            tensors[f"model.{name}"] = parameter.detach().cpu()
            for key in _MOMENTS:
                if key in optimizer.state[parameter]:
                    tensors[f"{key}.{name}"] = optimizer.state[parameter][key].detach().cpu()
        facts = {
            "identity": identity,
            "step": str(self.step),
            "scored": str(self.scored),
            "accuracy": repr(self.accuracy),
            "loss": repr(self.loss),
        }
        with full_disk_is_unavailable():
            file.parent.mkdir(exist_ok=True)
            with in_place_of(file) as aside:
                save_file({n: t.contiguous() for n, t in tensors.items()}, aside, metadata=facts)
