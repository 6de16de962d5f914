"""Does a device answer as the cloud would, with the same adapter and the same texts?

The product's trainer trains an adapter on clear text. Its predictor answers in float32. The
device's adapter answers over the device's encoder, which has rounded weights. The labels are
compared, and so are the states of both encoders without an adapter.

    python -m bench.utility.agreement --bundle FOLDER
"""

from __future__ import annotations

import numpy as np
import torch

from bench import console
from bench.console import table
from bench.data import require
from bench.utility.runs import answer
from bench.utility.tasks import CACHE, TASKS, Device, Split, Task, files, load
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.encoder import Additions, Encoder
from sottovoce.core.bundle.folder import Bundle

__all__ = ["main"]

_STATES = 1_000
"""Number of texts whose states are compared."""


@torch.no_grad()
def cosines(encoder: Encoder, texts: list[str]) -> list[float]:
    """Return the cosines between the device's and torch's pooled states of each text."""
    backbone, plain = backbones.load(), Additions.none(encoder.shape)
    found = []
    for text in texts:
        tokens = backbone.tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        there = backbone.model(**tokens).last_hidden_state[0].mean(0).numpy()
        here = encoder.pooled(text, plain)
        found.append(float(here @ there / np.linalg.norm(here) / np.linalg.norm(there)))
    return found


def main() -> None:
    """Train, answer in both places, and print the share of equal labels."""
    parser = console.parser("utility.agreement", __doc__, data="the task")
    parser.add_argument("--task", choices=sorted(TASKS), default="agnews")
    parser.add_argument("--train", type=int, default=2_000, help="training examples")
    parser.add_argument("--texts", type=int, default=5_000, help="texts to classify")
    parser.add_argument("--method", default="lora")
    arguments = parser.parse_args()
    require(parser, arguments.data, *files([arguments.task]))
    bundle = Bundle.open(arguments.bundle)
    encoder = Encoder.load(bundle)
    whole = load(arguments.task, arguments.data, arguments.train + arguments.texts).train
    texts, labels = whole.texts, whole.labels
    cut = arguments.train
    task = Task(arguments.task, Split(texts[:cut], labels[:cut]), Split(texts[cut:], labels[cut:]))
    options = TrainingOptions(arguments.method, epochs=3)
    with console.STEPS.status(f"training on {cut:,} texts, asking about {len(task.dev):,} twice"):
        found = answer(task, None, Device(bundle, CACHE), options, encoder)
    assert found.at_home is not None
    pairs = list(zip(found.labels, found.at_home, strict=True))
    with console.STEPS.status("comparing states"):
        alike = cosines(encoder, [" ".join(parts) for parts in task.dev.texts[:_STATES]])
    figures = {
        "task": arguments.task,
        "texts": len(pairs),
        "equal": round(float(np.mean([cloud == home for cloud, home in pairs])), 4),
        "right_in_cloud": round(float(np.mean(np.equal(found.labels, task.dev.labels))), 4),
        "right_at_home": round(float(np.mean(np.equal(found.at_home, task.dev.labels))), 4),
        "cosine": {"mean": round(float(np.mean(alike)), 4), "least": round(min(alike), 4)},
    }
    cells = [
        ("equal labels, %", f"{100 * figures['equal']:.2f}"),
        ("right in the cloud, %", f"{100 * figures['right_in_cloud']:.2f}"),
        ("right at home, %", f"{100 * figures['right_at_home']:.2f}"),
        (f"cosine of states, mean of {len(alike):,}", f"{figures['cosine']['mean']:.4f}"),
        ("and the least", f"{figures['cosine']['least']:.4f}"),
    ]
    title = f"{arguments.task}, {arguments.method}, {len(pairs):,} texts"
    console.publish(arguments, figures, table(title, ("",), ("",), cells))


if __name__ == "__main__":
    main()
