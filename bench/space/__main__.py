"""Do rare words and names pay for a bundle's privacy space, and is every class hidden as well?

The bench runs the maximum-a-posteriori attackers on noisy vectors and on released words, at every
level of the bundle. The text was in no count. Rare words, names and the rest are judged apart. The
attacker on vectors is also judged class by class, beside a blind guess. For the comparison with
other spaces, see docs/privacy_space.md.

    python -m bench.space
"""

from __future__ import annotations

from pathlib import Path

from bench import console
from bench.attacks.public import Public
from bench.data import DATA
from bench.space.classes import by_class
from bench.space.held_out import count
from bench.space.tails import tails
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, PCT2T2, T2T

KINDS = ("all", "common", "rare", "others", "names")


def main() -> None:
    """Print the table."""
    parser = console.parser("space", __doc__, models=True)
    parser.add_argument(
        "--treebank",
        type=Path,
        default=DATA / "ud_gum" / "train.conllu.gz",
        help="held-out text with parts of speech, gzip CoNLL-U (default: UD English GUM)",
    )
    parser.add_argument(
        "--draws",
        type=int,
        nargs=2,
        default=(5_000, 2_000),
        help="ordinary words, and words of each tail",
    )
    arguments = parser.parse_args()
    if not arguments.treebank.exists():
        parser.error(f"no {arguments.treebank}: name a treebank with --treebank")
    public = Public(Bundle.open(arguments.bundle), arguments.models)
    met = count(arguments.treebank, public)
    levels = {
        mechanism: tails(public, met, mechanism, tuple(arguments.draws))
        for mechanism in console.track((PCT2T.name, T2T.name), "attacking")
    }
    rows = [
        (mechanism, level, attacker, *(console.share(found[kind]) for kind in KINDS))
        for mechanism, by_level in levels.items()
        for level, attackers in by_level.items()
        for attacker, found in attackers.items()
    ]
    shown = console.table(
        "share of held-out words recovered; a tail above its rest breaks the rule",
        ("mechanism", "level", "attacker sees"),
        KINDS,
        rows,
    )
    classes = [
        row
        for mechanism in console.track((PCT2T.name, PCT2T2.name), "class by class")
        for row in by_class(public, met, mechanism)
    ]
    equal = console.table(
        "share of held-out words recovered from their noisy vector, class by class",
        ("mechanism", "level", "class"),
        ("words", "eta", "recovered", "95 %", "blind"),
        (
            (
                *(row[name] for name in ("mechanism", "level", "class")),
                f"{row['words']:,}",
                f"{row['eta']:.1f}",
                console.share(row["success"]),
                "-".join(console.share(end) for end in row["ci"]),
                console.share(row["blind"]),
            )
            for row in classes
        ),
    )
    figures = {"bundle": public.bundle.id, "levels": levels, "classes": classes}
    console.publish(arguments, figures, shown, equal)


if __name__ == "__main__":
    main()
