"""PromptPATE on the device: prompts teach, a noisy vote labels public texts.

The device holds the examples, so it deals them out, counts the votes and adds the noise (Duan et
al., 2023, section 3.3). Each teacher is a prompt with a few private examples and one public text. A
server with OpenAI's API returns the probability of each label as the next token. Prompts are
released and charged like a conversation, because the vote does not protect the examples from the
server. The noisy answers reveal almost nothing about any one example, not even through a model
trained on them.

One transaction pays for everything before anything leaves. A resumed vote is not charged again.

A vote takes thousands of calls, so an interrupted vote continues from its state on disk. Its
answers may be drawn only once. A second draw would reveal more than was charged. So would a mix of
votes from two ways to share the examples. Votes depend on single examples, so they are sealed.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from sottovoce.core.errors import DataLoss, InvalidInput, NotReady, Overloaded, Unavailable
from sottovoce.core.platform.files import atomic, disk, private_folder, sweep
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.votes import NOBODY, VotePlan, ask, deal, tally
from sottovoce.core.rpc.limits import FEWEST_PRIVATE_EXAMPLES, FEWEST_PUBLIC
from sottovoce.edge.client.openai_client import NextTokens, OpenAIClient, likeliest
from sottovoce.edge.state.database import Store, locked
from sottovoce.edge.state.device_key import Seal
from sottovoce.edge.state.ledger import Ledger, Purpose
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.examples import (
    check_example,
    check_labels,
    choice,
    label_charge,
    labelled,
    numbered,
)
from sottovoce.edge.tasks.privatize import Releases
from sottovoce.v1 import edge_agent_pb2 as agent

_FOLDER: Final = "votes"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_DAYS: Final = 30
"""Days until an abandoned vote is deleted."""


@dataclass(slots=True)
class Ballot:
    """One vote.

    Attributes:
        shares: for each teacher, the indices of its examples.
        votes: for each teacher that has finished, the index of a label for each text; see `NOBODY`.
        answers: once drawn, the index of the label of each answered text.
        id: the ledger's id of the vote.
    """

    shares: list[list[int]]
    votes: dict[int, list[int]] = field(default_factory=dict)
    answers: dict[int, int] | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(16))


class Ballots:
    """Votes in progress, in a folder of the agent's state."""

    def __init__(self, state: Path, seal: Seal) -> None:
        self._folder = state / _FOLDER
        self._seal = seal

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from voting over the same state; delete old votes."""
        lock = private_folder(self._folder) / _LOCK  # the folder's own lock is for writers
        busy = NotReady("another vote is under way", fix="wait until it ends", subject="distill")
        with locked(lock, busy):
            with disk(lock):
                for file in self._all():
                    if file.stat().st_mtime < time.time() - _DAYS * 86_400:
                        file.unlink()
            sweep(self._folder)
            yield

    def find(self, what: bytes) -> Ballot | None:
        """Return the vote on ``what``, or None if none is in progress.

        Args:
            what: names everything that the vote depends on.
        """
        with disk(self._folder):
            try:
                sealed = self._file(what).read_bytes()
            except FileNotFoundError:
                return None
        try:
            kept = json.loads(self._seal.unseal(sealed, what))
        except DataLoss as error:
            raise DataLoss(
                f"the vote kept in {self._file(what)} was altered",
                fix="delete the file: the vote begins anew, and is charged again",
                subject="distill",
            ) from error
        kept["votes"] = {int(at): votes for at, votes in kept["votes"].items()}
        if kept["answers"] is not None:
            kept["answers"] = {int(at): label for at, label in kept["answers"].items()}
        return Ballot(**kept)

    def keep(self, what: bytes, ballot: Ballot) -> None:
        """Write a vote; it is on disk when this returns.

        Raises:
            QuotaExceeded: the disk is full.
        """
        with atomic(self._file(what)) as file:
            file.write(self._seal.seal(json.dumps(asdict(ballot)).encode(), what))

    def forget(self, what: bytes) -> None:
        """Delete a vote that has ended."""
        with disk(self._folder), suppress(FileNotFoundError):
            self._file(what).unlink()

    def others(self, what: bytes) -> int:
        """Return the number of votes in progress on something else."""
        return sum(file != self._file(what) for file in self._all())

    def _all(self) -> list[Path]:
        return [file for file in self._folder.iterdir() if _NAME.fullmatch(file.name)]

    def _file(self, what: bytes) -> Path:
        return self._folder / what.hex()[:32]


_ATTEMPTS: Final = 5
_PAUSE: Final = 0.5
"""Seconds before the second attempt; doubles before each further attempt."""

_NOTHING_PRIVATE: Final = "Text: it is fine\nLabel: good\n\nText: it is awful\nLabel:"


class Teachers:
    """Teachers of a vote.

    Args:
        labels: in the order of their places.
        most: largest number of examples in a prompt.
    """

    def __init__(self, model: NextTokens, labels: Sequence[str], most: int, at_once: int) -> None:
        self._model = model
        self._labels = labels
        self._most = most
        self._at_once = at_once
        self._stopped = threading.Event()
        self._calls: dict[int, Callable[[], None]] = {}

    def check(self) -> None:
        """Send a request without private content, to find a wrong address before paying.

        Raises:
            Unavailable and others: the model does not answer as it must.
        """
        self._model.after(_NOTHING_PRIVATE)

    def votes(self, shots: Sequence[tuple[str, str]], texts: Sequence[str]) -> list[int]:
        """Return one teacher's votes: for each text the place of a label, or `NOBODY`.

        `NOBODY` means that the teacher names no label.

        Args:
            shots: the teacher's own examples, released, with their labels.
            texts: released.

        Raises:
            Unavailable, Overloaded: the model does not answer, even after retries.
        """
        head = f"One of these labels suits each text: {', '.join(self._labels)}.\n\n"
        head += "".join(f"Text: {text}\nLabel: {label}\n\n" for text, label in shots[: self._most])

        def vote(text: str) -> int:
            found = self._named(f"{head}Text: {text}\nLabel:")
            return NOBODY if found is None else found

        with ThreadPoolExecutor(self._at_once) as pool:
            cast = [pool.submit(vote, text) for text in texts]
            try:
                for each in as_completed(cast):
                    each.result()
            except BaseException:  # also after Ctrl-C: do not wait for running calls
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for cut in [*self._calls.values()]:
                    cut()
                raise
        return [each.result() for each in cast]

    def _named(self, prompt: str) -> int | None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return likeliest(self._model.after(prompt, self._note), self._labels)
            except InvalidInput:
                return None
            except (Unavailable, Overloaded):
                if attempt == _ATTEMPTS or self._stopped.wait(_PAUSE * 2 ** (attempt - 1)):
                    raise
        raise AssertionError("not reached")

    def _note(self, cut: Callable[[], None]) -> None:
        """Note how to end the call of this thread."""
        self._calls[threading.get_ident()] = cut
        if self._stopped.is_set():
            cut()


_LARGEST_SHARE: Final = 4
"""Largest number of examples in a prompt, in multiples of the usual number.

Shares are drawn at random, so some are large.
"""

_KEPT_EVERY: Final = 20.0
"""Seconds of a vote that may be lost; each save rewrites the whole vote."""


_ANOTHER: Final = (
    "another vote was paid for and has not ended: the very same command goes on with it, unless the"
    " key, the level or the bundle has changed since"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Settings of a vote.

    Attributes:
        epsilon, delta: the budget; delta 0 takes the usual value.
        shots: approximate number of examples in a teacher's prompt.
        texts: largest number of public texts to ask about.
        model: the server's name for the model.
        setting: how texts are released.
        few: vote with few examples too.
    """

    epsilon: float
    delta: float
    shots: int
    texts: int
    model: str
    setting: Setting
    at_once: int = 4
    few: bool = False


@dataclass(frozen=True, slots=True)
class Distilled:
    """Result of a vote: the number of answered texts, and the plan with its price."""

    plan: VotePlan
    answered: int


class _Told(NamedTuple):
    """A text on one line as the server sees it, and its key in the ledger."""

    text: str
    digest: bytes
    charge: float


@dataclass(eq=False)
class Distiller:
    """Runs votes over one state; ``server`` has the model."""

    engine: Engine
    store: Store
    ledger: Ledger
    releases: Releases
    ballots: Ballots
    server: OpenAIClient

    def plan(
        self, examples: Sequence[agent.LabelledText], public: Sequence[str], wanted: Wanted
    ) -> VotePlan:
        """Return the plan of a vote and its cost, without asking or charging anything.

        Raises:
            InvalidInput: there are too few examples or texts, one token cannot tell the labels
                apart, or epsilon is too small for them.
        """
        for place, example in enumerate(examples):
            with numbered(place):
                check_example(place, example, writes=False)
        check_labels(Counter(example.label for example in examples))
        _check_words(_labels(examples))
        if len(public) < FEWEST_PUBLIC:
            raise InvalidInput(
                f"{len(public)} public texts are too few",
                fix=f"give at least {FEWEST_PUBLIC}, hundreds if you can",
                subject="public",
            )
        if len(examples) < FEWEST_PRIVATE_EXAMPLES and not wanted.few:
            raise InvalidInput(
                f"{len(examples)} examples are few for a private vote: few teachers are little "
                "sure of anything",
                fix=f"give {FEWEST_PRIVATE_EXAMPLES:,}, or ask for it all the same "
                "(--dp-few-examples)",
                subject="examples",
            )
        budget = Budget.of(wanted.epsilon, wanted.delta, len(examples))
        asked = min(len(public), wanted.texts)
        return VotePlan.within(budget, len(examples), asked, share=wanted.shots)

    def distill(
        self,
        examples: Sequence[agent.LabelledText],
        public: Sequence[str],
        wanted: Wanted,
        tell: Callable[[Sequence[tuple[str, str]]], None],
        progress: Callable[[int, int], None] = lambda done, of: None,
        warn: Callable[[str], None] = lambda problem: None,
    ) -> Distilled:
        """Run the vote and pass on the labels that the teachers agree on.

        Args:
            public: texts that are not private, asked about in their order.
            tell: receives public texts with their labels, and must have stored them when it
                returns: the same call then starts a new vote.
            progress: receives the number of calls made, and their total.

        Raises:
            InvalidInput, NotReady, NotFound: see `plan`; no bundle; unknown level or policy;
                another vote is running; or the teachers agreed on nothing.
            QuotaExceeded: the ledger's limit or the disk.
            Unavailable and others: server errors; the same call resumes the vote and is not charged
                again.
        """
        plan, labels = self.plan(examples, public, wanted), _labels(examples)
        public = public[: plan.check.steps]
        with self.ballots.alone():
            learnt = [self._told(example.text, wanted.setting) for example in examples]
            asked = [self._told(text, wanted.setting) for text in public]
            what = self._named(examples, asked, plan, wanted)
            ballot = self.ballots.find(what)
            if ballot is None:
                if self.ballots.others(what):
                    warn(_ANOTHER)
                ballot = Ballot(deal(len(examples), plan.teachers))
            if ballot.answers is None:
                model = NextTokens(self.server, wanted.model)
                most = _LARGEST_SHARE * wanted.shots
                teachers = Teachers(model, labels, most, wanted.at_once)
                teachers.check()
                self.ballots.keep(what, ballot)
                self._pay(ballot, [*learnt, *asked], examples, plan, wanted)
                shots = [(told.text, e.label) for told, e in zip(learnt, examples, strict=True)]
                texts = [told.text for told in asked]
                self._vote(what, ballot, teachers, shots, texts, progress)
                votes = (np.array(each, np.int64) for each in ballot.votes.values())
                self._count(ballot, plan)
                ballot.answers = ask(tally(votes, len(texts), len(labels)), plan)
                ballot.votes = {}
                self.ballots.keep(what, ballot)  # first, as they are drawn once
            answers = [(public[at], labels[label]) for at, label in sorted(ballot.answers.items())]
            if answers:
                tell(answers)
            self.ballots.forget(what)
        if not answers:
            raise NotReady(
                f"the teachers agreed on none of {len(public)} public texts",
                fix="give more examples, public texts more like them, a larger epsilon, a better "
                "model, or fewer shots if prompts are too long for it; a further vote is charged",
                subject="examples",
            )
        return Distilled(plan, len(answers))

    def _vote(
        self,
        what: bytes,
        ballot: Ballot,
        teachers: Teachers,
        shots: Sequence[tuple[str, str]],
        texts: Sequence[str],
        progress: Callable[[int, int], None],
    ) -> None:
        having = [teacher for teacher, share in enumerate(ballot.shares) if share]
        of = len(having) * len(texts)
        progress(len(ballot.votes) * len(texts), of)
        kept = time.monotonic()
        try:
            for teacher in having:
                if teacher not in ballot.votes:
                    own = [shots[at] for at in ballot.shares[teacher]]
                    ballot.votes[teacher] = teachers.votes(own, texts)
                    progress(len(ballot.votes) * len(texts), of)
                    if time.monotonic() - kept > _KEPT_EVERY:
                        self.ballots.keep(what, ballot)
                        kept = time.monotonic()
        finally:
            self.ballots.keep(what, ballot)

    def _count(self, ballot: Ballot, plan: VotePlan) -> None:
        """Note that votes are being counted.

        If a count had begun before and its result was not noted, another draw costs another price.
        This happens with a folder restored from a backup.
        """
        with self.store.transaction() as transaction:
            counted = self.store.seal.name(b"counted", ballot.id.encode())
            if not self.ledger.first(transaction, counted):
                self._charge_vote(transaction, plan)

    def _charge_vote(self, transaction: sqlite3.Connection, plan: VotePlan) -> None:
        self.ledger.charge_adapter(transaction, plan.budget.epsilon, plan.budget.delta)

    def _pay(
        self,
        ballot: Ballot,
        told: Sequence[_Told],
        examples: Sequence[agent.LabelledText],
        plan: VotePlan,
        wanted: Wanted,
    ) -> None:
        """Charge texts not charged before; all or none, on disk when this returns."""
        seal, labels = self.store.seal, _labels(examples)
        charges = {each.digest: each.charge for each in told}
        with self.store.transaction() as transaction:
            first = self.ledger.first
            new = [amount for digest, amount in charges.items() if first(transaction, digest)]
            purpose = Purpose("distill", wanted.model)
            self.ledger.charge(transaction, math.fsum(new), len(new), purpose)
            if first(transaction, seal.name(b"vote", ballot.id.encode())):
                among = choice(seal, labels)
                keys = (
                    label_charge(seal, labelled(seal, e.text, e.label), among) for e in examples
                )
                self.ledger.charge_labels(transaction, keys, math.inf)
                self._charge_vote(transaction, plan)

    def _told(self, text: str, setting: Setting) -> _Told:
        drawn = self.releases.drawn(self.engine.current(), text, setting)
        released = " ".join(drawn.release.text.split())
        return _Told(released, drawn.digest, drawn.release.charge)

    def _named(
        self,
        examples: Sequence[agent.LabelledText],
        asked: Sequence[_Told],
        plan: VotePlan,
        wanted: Wanted,
    ) -> bytes:
        """Return the identifier of this vote, without the server's changeable address."""
        seal = self.store.seal
        rows = (seal.name(e.text.encode(), e.label.encode()) for e in examples)
        told = repr((plan, wanted.model, wanted.shots)).encode()
        return seal.name(b"distill", told, b"".join(rows), *(each.digest for each in asked))


def _labels(examples: Sequence[agent.LabelledText]) -> list[str]:
    return sorted({example.label for example in examples})


def _check_words(labels: Sequence[str]) -> None:
    """Refuse labels where one is the start of another.

    No token would name the shorter label alone.
    """
    plain = sorted(label.strip().casefold() for label in labels)
    for one, other in pairwise(plain):
        if other.startswith(one):
            raise InvalidInput(
                f"the label {one!r} begins another one, {other!r}",
                fix="rename one of them: a model names a label by its first letters",
                subject="examples",
            )
