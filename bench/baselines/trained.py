"""Does the order of mechanisms change under a trained attacker?

The network of `bench.attacks.trained` trains for some minutes on releases of one mechanism, from
public text and other texts of one kind. It may start from packed weights. Its share of recovered
content words is compared with the counting attacker's share. Training resumes from its checkpoint,
and ends when the loss on held-out texts no longer falls.

    python -m bench.baselines.trained --mechanism SanText --setting replaced:0.6 --start WEIGHTS
    python -m bench.baselines.trained --mechanism ours --setting strong --start WEIGHTS
    python -m bench.baselines.trained --mechanism ours --setting strong --minutes 0
"""

from __future__ import annotations

from pathlib import Path

from bench import console
from bench.attacks import trained
from bench.attacks.bigram import public_sequences
from bench.attacks.kinds import KINDS, MORE, Split, tallied
from bench.attacks.reader import device
from bench.baselines.run import BUDGET, OURS, TASKS, Job, Lab, Place
from bench.console import Figures, share, span
from bench.data import require
from sottovoce.cloud.models import backbone as backbones

_HELD = 60
"""Known texts, on whose releases the loss is watched."""


def main() -> None:
    """Train, attack, and print the table."""
    parser = console.parser("baselines.trained", __doc__, models=True, data="the data sets")
    known = (OURS, "PCT2T", "T2T", "SanText", "CusText")
    parser.add_argument("--mechanism", choices=known, required=True)
    parser.add_argument("--setting", required=True, help="a level of ours, or replaced:SHARE")
    parser.add_argument("--task", choices=[*TASKS], default="trec")
    parser.add_argument("--minutes", type=float, default=40.0, help="of training at most")
    parser.add_argument("--start", type=Path, help="a folder of packed weights to start from")
    parser.add_argument("--device", default="", help="cpu, or cuda where there is one")
    arguments = parser.parse_args()
    kind = TASKS[arguments.task]
    files = [file for table in (KINDS, MORE) if kind in table for file in table[kind][0]]
    require(parser, arguments.data, *files)
    place = Place(arguments.bundle, arguments.models, arguments.data, arguments.out)
    lab = Lab(place, arguments.task)
    channel = lab.channel(Job(arguments.task, arguments.mechanism, arguments.setting))
    split = Split.of(arguments.data, kind, BUDGET)
    public = [" ".join(each) for each in public_sequences(arguments.data, BUDGET.words)]
    corpus = trained.Corpus(public, [split.others], [*split.judged, *split.fitted])
    learner = trained.Lab(lab.public, [channel], backbones.load(), corpus, device(arguments.device))
    trainer = learner.trainer(split.fitted[:_HELD], own=True)
    stem = "-".join((arguments.mechanism, arguments.setting, arguments.task))
    arguments.name = f"baselines-{stem.replace(':', '')}"
    path = arguments.out / f"{arguments.name}.pt"
    if path.exists():
        trainer.load(path)
    elif arguments.start:
        trainer.start_from(arguments.start)
    if not trainer.history:
        trainer.judge()
    trained.train(trainer, lambda: trainer.save(path), arguments.minutes)
    learnt, seen = lab.case.releases(channel)
    rows: list[Figures] = []
    for name, attack in learner.attacks(lab.case, lab.familiar(channel), trainer.trained).items():
        tally = tallied(attack, learnt, seen, lab.content)
        rows.append({"attack": name, "success": tally.share, "ci": tally.interval()})
    figures = {
        "mechanism": arguments.mechanism,
        "setting": arguments.setting,
        "task": arguments.task,
        "steps": trainer.step,
        "minutes": trainer.seconds / 60,
        "words": trainer.words,
        "history": trainer.history,
        "rows": rows,
    }
    title = f"content words recovered: {arguments.mechanism}, {arguments.setting}, {kind}"
    cells = [(row["attack"], share(row["success"]), span(row["ci"])) for row in rows]
    console.publish(
        arguments,
        figures,
        console.table(title, ("attack",), ("success", "95 %"), cells),
        f"trained for {trainer.step} steps, on {trainer.words:,} words with noise",
        "held-out loss by step: "
        + ", ".join(f"{step:.0f}: {loss:.3f}" for step, _, _, loss in trainer.history),
    )


if __name__ == "__main__":
    main()
