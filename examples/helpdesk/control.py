"""The control: the same training and the same test, on the clear text.

It calls the cloud's training code directly, because there is no way to send clear
text through the agent. Prints one JSON object: the predicted labels.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sottovoce.cloud.job import Example, TrainingOptions, Watch
from sottovoce.cloud.models import backbone
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.trainer import train

HERE = Path(__file__).parent


def read_table(path: Path) -> list[Example]:
    """The examples of a TSV with a header: text, label."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [Example(text, label) for text, label in rows]


def main() -> None:
    """Trains on train.tsv, predicts test.tsv."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=Path, default=HERE / "train.tsv")
    parser.add_argument("--test", type=Path, default=HERE / "test.tsv")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    examples, asked = read_table(arguments.train), read_table(arguments.test)
    options = TrainingOptions(seed=arguments.seed)
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[note]}"))
    with (
        tempfile.TemporaryDirectory() as scratch,
        Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("", total=None, note="loading")
        result = train(
            examples,
            options,
            backbone.load("default"),
            Path(scratch) / "adapter",
            watch=Watch(
                on_progress=lambda p: bar.update(
                    task, total=p.steps, completed=p.step, note=f"loss {p.loss:.3f}"
                )
            ),
        )
        with closing(ModelThread(backbone.load("default"))) as thread:
            predictor = Predictor(thread)
            adapter = AdapterFiles.of(result.folder)
            answers = [predictor.submit(adapter, example.text) for example in asked]
            predicted = [answer.result()[0][0] for answer in answers]
    print(json.dumps({"predicted": predicted, "held_out_accuracy": result.held_out_accuracy}))


if __name__ == "__main__":
    main()
