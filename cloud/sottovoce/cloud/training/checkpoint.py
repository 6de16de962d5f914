"""The state of a training run, as one safetensors file that is always complete.

Weights, optimiser moments and the best weights so far are in one file, because one ``os.replace``
then changes them together. Nothing is pickled, so reading a checkpoint cannot run code.
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
    """Trained parameters, by name."""

    def trained(self) -> dict[str, Tensor]:
        """Return the parameters that training changes."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Copy back all or some of the parameters from `trained`."""


def _copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().to("cpu", copy=True) for name, t in state.items()}


@dataclass(slots=True)
class Checkpoint:
    """Steps done, steps at the last scoring, and the best weights with their scores.

    The scores are accuracy and loss on the held-out part.
    """

    step: int
    scored: int
    best: dict[str, Tensor]
    accuracy: float
    loss: float
    _tensors: dict[str, Tensor]

    @classmethod
    def first(cls, weights: dict[str, Tensor], accuracy: float, loss: float) -> Checkpoint:
        """Return the checkpoint at the start of a run."""
        return cls(0, 0, _copy(weights), accuracy, loss, {})

    def keep_best(self, weights: dict[str, Tensor], accuracy: float, loss: float) -> None:
        """Keep the current ``weights`` as the best, unless the kept ones are better."""
        self.scored = self.step
        if (accuracy, -loss) >= (self.accuracy, -self.loss):
            self.best, self.accuracy, self.loss = _copy(weights), accuracy, loss

    @classmethod
    def load(cls, file: Path, identity: str) -> Checkpoint | None:
        """Read the checkpoint in ``file``; None if it belongs to another run or is missing."""
        try:
            with safe_open(file, framework="pt") as opened:
                facts = opened.metadata()
                if facts.get("identity") != identity:
                    return None
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        best = {name[5:]: t for name, t in tensors.items() if name.startswith("best.")}
        return cls(
            int(facts["step"]),
            int(facts["scored"]),
            best,
            float(facts["accuracy"]),
            float(facts["loss"]),
            tensors,
        )

    def into(self, model: Weights, optimizer: torch.optim.Optimizer) -> None:
        """Restore weights and optimiser moments."""
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
        """Write the whole state; a crash leaves the old file or the new one.

        The parent folder must exist. A folder that another worker took over is not created again.

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
