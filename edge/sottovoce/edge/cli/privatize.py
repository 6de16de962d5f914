"""``sotto privatize`` and ``sotto try``, and the preview of requests before they leave."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from sottovoce.core.platform.console import (
    Command,
    plain,
    print_fact,
    print_json,
    print_table,
    print_text,
)
from sottovoce.core.platform.files import atomic
from sottovoce.core.privacy.policies import POLICIES, PUNCTUATION
from sottovoce.edge.cli import views
from sottovoce.edge.cli.client import Client, reach
from sottovoce.edge.cli.common import (
    PATH,
    Line,
    answered,
    at,
    interruptible,
    load_config,
    privacy_options,
    read_texts,
    text_argument,
)
from sottovoce.edge.config import Config
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.device_key import key_in
from sottovoce.edge.state.words import Words
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.privatize import MOST_DRAWS, Piece, Trial, settings, tried
from sottovoce.edge.tasks.spending_report import amount
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats


@click.command("privatize", cls=Command)
@text_argument
@privacy_options
@click.option("--output", "target", type=PATH, help="File.  [default: stdout]")
@click.option(
    "--session",
    default="",
    help="Name of the texts' conversation; within it, a name keeps one surrogate."
    "  [default: each text is separate]",
)
@click.option("--words", is_flag=True, help="Also show how each word was treated.")
def privatize_command(
    text: str | None,
    privacy: agent.PrivacyOptions,
    source: Path | None,
    target: Path | None,
    session: str,
    words: bool,
    as_json: bool,
) -> None:
    """Replace the words of TEXT, or of one text a line; contacts no cloud.

    Uses the running agent. Without a running agent, opens the bundle and the ledger directly. The
    same text gives the same release each time. Blank lines stay blank. --output appears complete or
    not at all. Prefer --input or stdin to TEXT: other users of the machine can see a command's
    arguments while it runs.
    """
    asked = agent.PrivatizeRequest(
        privacy=privacy,
        words=words or as_json,
        session=session,
    )
    config = load_config()
    output = nullcontext(sys.stdout.buffer) if target is None else atomic(target)
    with reach(config) as client, output as out:
        for number, line in enumerate(read_texts(text, source)):
            answered(number, target)
            response = _released(client, line, asked)
            if as_json:
                shown = json.dumps(views.release(response), ensure_ascii=False)
            else:
                shown = "\n".join((response.text, *_each_word(line.text, response)))
            out.write(shown.encode() + b"\n")
            out.flush()


def _released(client: Client, line: Line, asked: agent.PrivatizeRequest) -> agent.PrivatizeResponse:
    if not line.text or line.text.isspace():
        return agent.PrivatizeResponse(text=line.text)  # nothing to protect
    asked.text = line.text
    with at(line):
        response: agent.PrivatizeResponse = client.agent.Privatize(asked)
    return response


def _each_word(text: str, response: agent.PrivatizeResponse) -> Iterator[str]:
    """Yield the treatment of each word except punctuation; nothing without --words."""
    for word in response.words:
        if word.tag != PUNCTUATION:
            typed = text[word.start : word.end]
            released = response.text[word.released_start : word.released_end]
            treatment = views.treatment_name(word).lower()
            known = word.hides in ("", word.tag.lower())
            kind = word.tag if known else f"{word.tag} ({word.hides})"
            yield f"    {typed:20}  {released:20}  {treatment:5}  {kind}"


@click.command("try", cls=Command)
@text_argument
@privacy_options
@click.option(
    "--draws",
    type=click.IntRange(1, MOST_DRAWS),
    default=1,
    show_default=True,
    help="Number of draws for each policy and level.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Show every policy, not only those for your conversations and texts.",
)
def try_command(
    text: str | None,
    source: Path | None,
    privacy: agent.PrivacyOptions,
    draws: int,
    every: bool,
    as_json: bool,
) -> None:
    """Show how TEXT, or one text a line, would leave.

    Shows TEXT first as a message of a conversation, then under each level of the policy for
    training. The draws are for this screen alone: nothing is sent, nothing is charged, and a later
    release is another draw. Yellow words got noise; an underlined word came out unchanged. Blue
    words were replaced by random words of the same kind. The lines below name the kind of each.
    `sotto words` changes these choices. The rest leaves as typed.
    """
    config = load_config()
    with _engine(config) as engine:
        opened = engine.current()
        mechanism = privacy.mechanism or config.privacy.mechanism
        usual = dict.fromkeys(("personal", config.chat.policy, config.privacy.policy))
        policies = [privacy.policy] if privacy.policy else POLICIES if every else usual
        wanted = settings(opened, privacy.level, mechanism, policies)
        for line in read_texts(text, source, "trying"):
            with at(line):
                trials = [tried(opened, line.text, each, draws) for each in wanted]
            least = config.privacy.least_policy
            if as_json:
                print_json({"text": line.text, "tried": [_view(each, least) for each in trials]})
            else:
                _show(line.text, trials, least)
    if not as_json and sys.stdout.isatty():
        hint()


@contextmanager
def _engine(config: Config) -> Iterator[Engine]:
    """Open the engine with the owner's lists, which a device without a state does not have."""
    # Nothing leaves here, so policies that the owner has not allowed are shown too.
    shown = replace(config.privacy, least_policy="personal")
    engine = Engine.configured(config.bundle, shown, config.tagger, hide=config.hide)
    if not (config.agent.state / DATABASE).exists():
        yield engine
        return
    with closing(Store.open(config.agent.state, key_in(config.agent.key_place))) as store:
        engine.heed(Words(store, config.hide.hiding).hiding)
        yield engine


def _allowed(trial: Trial, least: str) -> bool:
    return POLICIES[trial.setting.policy].covers(POLICIES[least])


def _view(trial: Trial, least: str) -> dict[str, Any]:
    setting = trial.setting
    view: dict[str, Any] = {
        "level": setting.level,
        "mechanism": setting.mechanism,
        "policy": setting.policy,
        "allowed": _allowed(trial, least),
    }
    if trial.refused:
        return view | {"refused": trial.refused}
    return view | {
        "eta": trial.eta,
        "guessed": trial.guessed,
        "charge": trial.charge,
        "releases": [release.text for release in trial.releases],
        "words": [
            {"word": piece.typed, "became": piece.became, "hides": piece.hides}
            for piece in trial.pieces()[0]
            if piece.hides
        ],
    }


def _show(text: str, trials: list[Trial], least: str) -> None:
    click.echo(f"{'typed':10}{plain(text, line=True)}")
    policy, told, rows = "", "", []
    for trial in trials:
        setting = trial.setting
        if setting.policy != policy:
            policy, told = setting.policy, ""
            print_text(f"\n{click.style(policy, bold=True)}: {POLICIES[policy].about}")
            if not _allowed(trial, least):
                print_text(
                    f"not yet allowed: `sotto config set privacy.least_policy {policy}` allows it"
                )
        if trial.refused:
            print_fact(setting.level, f"not allowed here: {trial.refused}", 10)
            continue
        drawn = trial.pieces()
        noise = POLICIES[policy].with_noise()
        for number, pieces in enumerate(drawn):
            shown = "".join(map(coloured, pieces))
            click.echo(f"{'' if number else setting.level if noise else 'leaves':10}{shown}")
        hidden = ", ".join(replaced(drawn[0]))
        if hidden != told:
            click.echo(f"{'':10}hides {hidden or 'nothing'}")
            told = hidden
        if not noise:
            continue
        rows.append(
            (
                policy,
                setting.level,
                f"{trial.eta:.4g}",
                f"{trial.guessed:.0%}",
                f"{amount(trial.charge)} eta",
            )
        )
    if rows:
        click.echo()
        print_table(("policy", "level", "eta", "guessed", "costs"), rows)
        print_text(
            "\nguessed: of words with noise, in one text, by the strongest attacker we have, on "
            "the worst kind that was tried (`sotto calibrate`); costs: what the ledger is charged."
        )


_COLOURS: Final = {"noise": "yellow", "draw": "cyan"}


class Preview:
    """Shows the requests of a command before they leave, and asks the owner first if so set.

    Args:
        shown: print what leaves.
        as_json: print it as one object, on standard output.
        ask: ask before the first message of a conversation leaves.
    """

    def __init__(self, client: Client, *, shown: bool, as_json: bool, ask: bool) -> None:
        self._client, self._shown, self._as_json = client, shown, as_json
        self._ask = ask and sys.stdin.isatty()

    def passes(self, request: chats.ChatRequest | chats.CompleteRequest) -> bool:
        """Show a request if that is wanted; return whether it may leave.

        Args:
            request: it is marked as agreed if the owner says so.
        """
        ask = self._ask and not request.agreed
        if not self._shown and not ask:
            return True
        departed = self._departed(request)
        if self._as_json:
            print_json({"leaves": [*_views(departed)]})
        else:
            _show_last_turn(request, departed, whole=ask)
        if ask:
            request.agreed = click.confirm("Send it?", err=True)
            return request.agreed
        return True

    def _departed(self, request: chats.ChatRequest | chats.CompleteRequest) -> chats.Departed:
        asked = copy.deepcopy(request)
        asked.preview = asked.words = True
        chat = self._client.chat
        call = chat.Chat if isinstance(asked, chats.ChatRequest) else chat.Complete
        (event,) = interruptible(partial(call, asked))
        departed: chats.Departed = event.departed
        return departed


def _show_last_turn(
    request: chats.ChatRequest | chats.CompleteRequest, departed: chats.Departed, *, whole: bool
) -> None:
    """Print the last turn, or all turns, and the replaced words."""
    typed = (
        [turn.text for turn in request.turns]
        if isinstance(request, chats.ChatRequest)
        else [request.text]
    )
    turns = [*zip(typed, departed.turns, strict=True)]
    for text, turn in turns if whole else turns[-1:]:
        pieces = [*_pieces(text, turn)]
        note("leaves", "".join(map(coloured, pieces)))
        note("hidden", ", ".join(replaced(pieces)))


def _pieces(typed: str, turn: chats.DepartedTurn) -> Iterator[Piece]:
    end = 0
    for word in turn.words:
        yield Piece(turn.released_text[end : word.released_start])
        end = word.released_end
        yield Piece(
            turn.released_text[word.released_start : end],
            views.treatment_name(word).lower(),
            word.protected and not word.replaced,
            word.hides,
            typed[word.start : word.end],
        )
    yield Piece(turn.released_text[end:])


def _views(departed: chats.Departed) -> Iterator[dict[str, Any]]:
    for turn in departed.turns:
        yield views.turn(turn) | {"words": [*map(views.word, turn.words)]}


def coloured(piece: Piece) -> str:
    """Return a piece on one line, in the colour of its treatment."""
    shown, colour = plain(piece.text, line=True), _COLOURS.get(piece.became)
    return click.style(shown, fg=colour, underline=piece.kept or None) if colour else shown


def replaced(pieces: Iterable[Piece]) -> Iterator[str]:
    """Yield each drawn word with its kind, once a word."""
    told = {
        piece.typed: f"{plain(piece.typed, line=True)} ({piece.hides})"
        for piece in pieces
        if piece.became == "draw"
    }
    yield from told.values()


def note(name: str, text: str) -> None:
    """Print a line about a request on standard error; the text is fit for a terminal."""
    if text:
        click.echo(f"{name:>8}  {text}", err=True)


def hint() -> None:
    """Tell a person at a terminal how to change the choice of words to replace."""
    click.echo(
        "\n`sotto words hide WORD` hides a word from now on; `sotto words allow WORD` lets it pass"
        " under personal."
    )
