"""``sotto calibrate``."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import Level, name_of, strongest
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.platform.console import (
    Command,
    print_fact,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from sottovoce.core.platform.files import atomic, private_folder
from sottovoce.edge.cli.common import PATH, load_config, not_as_root
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.engine import open_current

if TYPE_CHECKING:
    from sottovoce.edge.measure import Utility

_EXPLANATION = {
    "replaced": "share of protected words that come out as another word, on everyday text; if "
    "rare: the same for words outside the 5,000 commonest (names, places, diagnoses).",
    "attack": "how often one who knows the bundle, the level and how often each word is written "
    "guesses the word from the noisy vector itself, which is never sent; on rare: from rare "
    "words alone; word: from the released word, which is.",
    "best": "how often the strongest attacker guesses it, from all that is sent: he reads the "
    "words around it as well, and has other text of your kind. It is the upper end of what was "
    "measured on the worst of six kinds of text. A target speaks of this.",
}
_ADVICE = """\
A smaller eta means more noise: more words replaced, fewer guessed, and less left to learn from.
A word is never safe because it was replaced: a likely replacement can be guessed back."""
_EXAMPLE_WORDS = 8
_ESTIMATE = 2
"""Version of the estimate. Raise it when the estimate changes, so that kept results expire."""


@click.command("calibrate", cls=Command)
@click.option("--mechanism", default="", help="Mechanism.  [default: configured]")
@click.option(
    "--target-attack",
    type=float,
    help="Find the level at which an attacker guesses at most this share of words (0 to 1).",
)
@click.option(
    "--target-replaced",
    type=float,
    help="Find the level at which at least this share of protected words is replaced (0 to 1).",
)
@click.option(
    "--target-utility",
    type=float,
    help="Find the strongest level at which texts like those of --labelled are still classified"
    " with this accuracy (0 to 1), by a stand-in classifier on this device.",
)
@click.option(
    "--labelled",
    type=PATH,
    help="Table for --target-utility: a header with the columns text and label, tab-separated.",
)
@click.option(
    "--text",
    help="Privatise this text at the level found, or else the configured one, and show it before"
    " and after. This is a real release, charged to the ledger.",
)
def command(
    mechanism: str,
    target_attack: float | None,
    target_replaced: float | None,
    target_utility: float | None,
    labelled: Path | None,
    text: str | None,
    as_json: bool,
) -> None:
    """Explain the protection levels of the bundle, or find one that meets a target.

    The figures were measured when the bundle was built. A level that meets a target works like a
    named level: "attack:0.3" is a level on the command line, in the configuration, and for an app.
    The measurement error counts against a level. For --target-utility it is only shown.

    --target-utility privatises the labelled texts at several levels on this device and trains a
    small classifier on them; nothing leaves the device and nothing is charged. The classifier only
    stands in for the cloud's adapter, which usually does better: compare its accuracies between
    levels, not with the adapter's. The result is kept beside the bundle, for the next run with the
    same file.
    """
    asked = {"attack": target_attack, "replaced": target_replaced, "utility": target_utility}
    given = {measure: share for measure, share in asked.items() if share is not None}
    if len(given) > 1:
        raise InvalidInput("several targets are given", fix="give one", subject="target")
    if ("utility" in given) != (labelled is not None):
        raise InvalidInput(
            "--target-utility and --labelled belong together", fix="give both", subject="labelled"
        )
    config = load_config()
    bundle = open_current(config.bundle)
    mechanism = mechanism or config.privacy.mechanism
    levels = bundle.manifest.calibration.get(mechanism)
    if not levels:
        known = ", ".join(sorted(bundle.manifest.calibration))
        raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
    utility = name = None
    if labelled is not None:
        utility = _utility(config, bundle, mechanism, labelled)
        name = utility.reaching(given["utility"])
    elif given:
        name = name_of(*given.popitem())
    found = bundle.manifest.level(mechanism, name) if name else None
    example = None
    if text is not None:
        example = _released(config, text, name or config.privacy.level, mechanism)
    elif name:
        example = _example(config, name, mechanism)
    rows = levels | ({name: found} if name and found else {})
    rows = dict(sorted(rows.items(), key=lambda item: item[1].eta))  # strongest first
    typed = _as_typed(bundle, mechanism, rows)
    if as_json:
        print_json(
            {
                "bundle_id": bundle.id,
                "mechanism": mechanism,
                "default_level": config.privacy.level,
                "levels": {known: asdict(level) for known, level in levels.items()},
                "embed": {known: asdict(level) for known, level in bundle.manifest.embed.items()},
                "verbatim": typed,
                "target": {"level": name, **asdict(found)} if found else None,
                "utility": asdict(utility) if utility else None,
                "example": example,
            }
        )
        return
    click.echo(f"{mechanism}, bundle {bundle.id} ({bundle.manifest.backbone.name})\n")
    print_table(
        ("level", "eta", "replaced", "if rare", "attack", "on rare", "word", "best"),
        [_row(shown, level) for shown, level in rows.items()],
        ("if rare", "on rare", "word"),
    )
    click.echo()
    width = max(10, *(len(shown) + 2 for shown in rows))
    for shown, level in rows.items():
        print_fact(f"{shown}:", _promise(level), width)
    if typed:
        print_text("\nOf all words of everyday text, these leave as they were typed:\n")
        print_table(
            ("policy", *rows, "drawn anew"),
            [
                (policy, *(f"{figures[each]:.0%}" for each in (*rows, "drawn")))
                for policy, figures in typed.items()
            ],
        )
    if any(level.classes for level in rows.values()):
        _show_classes(rows)
    click.echo()
    for column, meaning in _EXPLANATION.items():
        print_fact(f"{column}:", meaning, 10)
    print_text(_ADVICE)
    if bundle.manifest.embed and not name:
        print_text("\ntoken-embedding.v1, for `sotto embed`: the attack on one token's vector\n")
        embed = bundle.manifest.embed.items()
        print_table(
            ("level", "eta", "attack"),
            [(shown, f"{each.eta:.2f}", f"{each.map_attack:.0%}") for shown, each in embed],
        )
    if utility:
        print_text(_told(utility))
    if name and found:
        print_text(_meaning(name, found))
    if example:
        click.echo()
        for part in ("before", "after"):
            print_fact(f"{part}:", example[part], 8)
        print_text(example["note"])


def _utility(config: Config, bundle: Bundle, mechanism: str, labelled: Path) -> Utility:
    """Return the labelled texts' utility by level, from a kept result or anew."""
    from sottovoce.edge import measure
    from sottovoce.edge.cli.common import read_table
    from sottovoce.edge.tasks.engine import Engine

    examples = read_table(labelled)
    engine = Engine.configured(config.bundle, config.privacy, config.tagger)
    floor = config.privacy.largest_eta
    asked = (_ESTIMATE, mechanism, config.privacy.policy, floor, engine.fingerprint)
    told = [[example.text, example.label] for example in examples]
    key = hashlib.sha256(json.dumps([asked, told]).encode()).hexdigest()[:32]
    file = config.bundle.path / "utility" / f"{bundle.id}-{key}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: estimate anew
        kept = json.loads(file.read_bytes())
        points = tuple(measure.Point(**point) for point in kept.pop("points"))
        return measure.Utility(points=points, **kept)
    not_as_root(config)  # check first, because the estimate takes a minute
    with progress_bar() as progress:
        used = min(len(examples), measure.MOST_TEXTS)
        task = progress.add_task("trying levels", total=used * measure.LEVELS, note="")
        found = measure.estimate(
            bundle,
            engine.current().privatizer,
            [example.text for example in examples],
            [example.label for example in examples],
            mechanism,
            config.privacy.policy,
            step=lambda: progress.advance(task),
        )
    private_folder(file.parent)
    with atomic(file) as kept_now:
        kept_now.write(json.dumps(asdict(found)).encode())
    return found


def _released(config: Config, text: str, level: str, mechanism: str) -> dict[str, Any]:
    """Return the owner's text before and after.

    This is a real release, because a second draw would cost privacy.
    """
    from sottovoce.edge.cli.client import reach
    from sottovoce.v1 import edge_agent_pb2 as agent

    privacy = agent.PrivacyOptions(level=level, mechanism=mechanism)
    request = agent.PrivatizeRequest(text=text, privacy=privacy, words=True)
    with reach(config) as client:
        answer: agent.PrivatizeResponse = client.agent.Privatize(request)
    protected = [word for word in answer.words if word.protected]
    replaced = sum(word.replaced for word in protected)
    return {
        "before": text,
        "after": answer.text,
        "note": f"{len(protected)} words were protected, {replaced} of them came out as another."
        " This release is on the ledger; the same text at this level stays the same.",
    }


def _example(config: Config, level: str, mechanism: str) -> dict[str, Any]:
    """Return public words before and after.

    They hold no personal data, so nothing is charged.
    """
    from sottovoce.core.privacy import token_embedding
    from sottovoce.core.privacy.noise import SecureRandom
    from sottovoce.core.privacy.policies import Setting
    from sottovoce.edge.tasks.engine import Engine

    engine = Engine.configured(config.bundle, config.privacy, config.tagger)
    opened, policy = engine.current(), config.privacy.policy
    ids = token_embedding.draw(opened.bundle, _EXAMPLE_WORDS, policy, SecureRandom())
    released = opened.privatizer.release_plain_tokens(ids, Setting(level, mechanism, policy))
    return {
        "before": " ".join(opened.bundle.words[number] for number in ids),
        "after": " ".join(released),
        "note": "These are words drawn from the bundle's list, rare ones as likely as common ones;"
        " --text shows a text of your own.",
    }


def _promise(level: Level) -> str:
    recovered = float(strongest(level.map_attack))
    return (
        "An attacker who trained a model on similar text recovers about "
        f"{100 * recovered:.0f} of 100 protected words."
    )


def _meaning(name: str, level: Level) -> str:
    def of_100(share: float) -> str:
        return f"{100 * share:.0f}"

    return (
        f"\nThe level found is {name}, eta {level.eta:.2f}. Of 100 protected words people write,\n"
        f"  {of_100(level.replaced)} come out as another word"
        f" (of rare words {of_100(level.replaced_rare)}, of names"
        f" {of_100(level.replaced_names)});\n"
        f"  {of_100(level.map_attack)} are guessed by one who sees even the noisy vectors"
        f" (of rare words {of_100(level.map_attack_rare)}, of names"
        f" {of_100(level.map_attack_names)});\n"
        f"  {of_100(level.map_attack_word)} are guessed from the text that is sent"
        f" (of rare words {of_100(level.map_attack_word_rare)}, of names"
        f" {of_100(level.map_attack_word_names)}).\n"
        "That is one word at a time, on everyday text.\n"
        f"{_promise(level)}\n"
        f'Use it: --level {name}, or level = "{name}" under [privacy] in the configuration.'
    )


def _told(utility: Utility) -> str:
    lines = [
        f"\nAccuracy of a stand-in classifier on {utility.texts} labelled texts, give or take"
        f" {2 * utility.error:.0%}; on this device, nothing was sent:\n",
        f"  always the commonest label   {utility.guess:6.1%}",
        *(
            f"  {name_of('attack', point.attack):11}  eta {point.eta:7.2f}   "
            f"  {point.accuracy:6.1%}"
            for point in utility.points
        ),
        f"  unprotected, the upper bound {utility.clear:6.1%}",
        "The cloud's adapter usually does better: take the differences, not the height.",
    ]
    return "\n".join(lines)


def _as_typed(
    bundle: Bundle, mechanism: str, rows: dict[str, Level]
) -> dict[str, dict[str, float]]:
    """Return the shares of words that leave unchanged or are drawn, by policy."""
    from sottovoce.core.privacy import mechanisms
    from sottovoce.core.privacy.policies import POLICIES
    from sottovoce.edge.measure import drawn, verbatim

    shares = bundle.manifest.shares
    known = mechanism in mechanisms.MECHANISMS
    if not known or mechanisms.find(mechanism).contextual or not shares:
        return {}  # with a tagger, readings alone do not give the shares
    return {
        name: {
            **{each: verbatim(shares, level, mechanism, policy) for each, level in rows.items()},
            "drawn": drawn(shares, policy),
        }
        for name, policy in POLICIES.items()
        if not policy.context  # readings alone do not give the shares either
    }


def _show_classes(rows: dict[str, Level]) -> None:
    """Print by level each class's eta, and how often its words are guessed."""
    print_text(
        "\nEach class of words has the eta at which its words are guessed as often as others, or a "
        "point above blind guessing (eta, attack):\n"
    )
    table = []
    for name, any_level in next(iter(rows.values())).classes.items():
        each = [level.classes[name] for level in rows.values()]
        figures = (f"{one.eta:.2f} {one.map_attack:4.0%}" for one in each)
        table.append((name, f"{any_level.blind:.0%}", *figures))
    print_table(("class", "blind", *rows), table, ("blind",))


def _row(name: str, level: Level) -> tuple[str, ...]:
    best = float(strongest(level.map_attack))
    shares = (
        *(level.replaced, level.replaced_rare, level.map_attack, level.map_attack_rare),
        *(level.map_attack_word, best),
    )
    # An estimate of next to nothing may be below it.
    return (name, f"{level.eta:.2f}", *(f"{max(share, 0):.0%}" for share in shares))
