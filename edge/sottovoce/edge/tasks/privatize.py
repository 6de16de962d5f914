"""Release texts under the device's key, with one charge for each document.

The same document always gives the same bytes. The charge is on disk before the release is returned,
so a crash cannot lose the charge of a release that was seen. After a crash in between, the same
document gives the same release, which is already charged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import InvalidInput, NotFound, SottovoceError
from sottovoce.core.platform import memory
from sottovoce.core.privacy.policies import POLICIES, Setting, Treatment, find
from sottovoce.core.privacy.release import Release, WordRelease
from sottovoce.core.privacy.surrogates.surrogate import Owners
from sottovoce.edge.state.apps import calling
from sottovoce.edge.state.database import NoiseKeys
from sottovoce.edge.state.ledger import FOR_APPS, Ledger, Purpose
from sottovoce.edge.tasks.engine import Engine, OpenBundle
from sottovoce.edge.tasks.spending_report import guessed
from sottovoce.v1 import edge_agent_pb2

LONGEST_SESSION = 128
"""Longest name of a conversation, in bytes of UTF-8."""

LONG: Final = 1 << 15
"""Characters of a text that takes a tenth of a second, and megabytes of memory."""
_AT_ONCE: Final = {LONG: 1, 1 << 13: 2, 0: 4}
"""Number of texts processed at once, by the least characters of a length class.

Texts of one class do not wait for those of another.
"""


def resolve(options: edge_agent_pb2.PrivacyOptions, default: Setting) -> Setting:
    """Return the caller's options, with gaps filled from `default`."""
    return Setting(
        level=options.level or default.level,
        mechanism=options.mechanism or default.mechanism,
        policy=options.policy or default.policy,
    )


def to_response(release: Release, *, words: bool) -> edge_agent_pb2.PrivatizeResponse:
    """Return the release as a response for apps, with a report on its words if asked."""
    return edge_agent_pb2.PrivatizeResponse(
        text=release.text,
        words=released_words(release) if words else (),
        level=release.setting.level,
        mechanism=release.setting.mechanism,
        eta=release.eta,
        bundle_id=release.bundle_id,
    )


def released_words(release: Release) -> Iterator[edge_agent_pb2.ReleasedWord]:
    """Yield the report on each word of a release."""
    for word in release.each_word():
        yield edge_agent_pb2.ReleasedWord(
            start=word.start,
            end=word.end,
            released_start=word.released_start,
            released_end=word.released_end,
            tag=word.tag,
            protected=word.protected,
            replaced=word.replaced,
            treatment=edge_agent_pb2.Treatment.Name(word.treatment),
            hides=_hides(word),
        )


def _hides(word: WordRelease) -> str:
    """Return the kind of a word that did not pass, in the singular; else nothing."""
    if not word.protected:
        return ""
    if word.hides:
        return word.hides.removesuffix("s")
    return word.tag.lower()


@dataclass(frozen=True, slots=True)
class DrawnText:
    """A release that is not charged yet, with its key in the ledger."""

    release: Release
    digest: bytes


class Releases:
    """Privatises through `engine` with the key of `keyring`, and charges to `ledger`."""

    def __init__(self, engine: Engine, keyring: NoiseKeys, ledger: Ledger) -> None:
        self._engine = engine
        self._keyring = keyring
        self._ledger = ledger
        self._turns = {least: threading.Semaphore(most) for least, most in _AT_ONCE.items()}

    def check_session(self, session: str) -> None:
        """Refuse a conversation's name that is too long.

        Raises:
            InvalidInput: the name is too long.
        """
        if len(session.encode("utf-8", "surrogatepass")) > LONGEST_SESSION:
            raise InvalidInput(
                "the session's name is too long",
                fix=f"use at most {LONGEST_SESSION} bytes",
                subject="session",
            )

    def release(
        self, document: str, setting: Setting, session: str = "", purpose: Purpose = FOR_APPS
    ) -> Release:
        """Return the release of `document`, charged.

        Args:
            session: the conversation it belongs to, if any; see `Privatizer.release`.
            purpose: the reason for the release, for the ledger.

        Raises:
            InvalidInput: the document is not a text, or the session's name is too long.
            NotFound: unknown level, mechanism or policy.
            NotReady: there is no bundle.
            QuotaExceeded: the ledger's limit or the disk.
        """
        self.check_session(session)
        drawn = self.drawn(self._engine.current(), document, setting, session)
        self._ledger.charge_once(drawn.digest, drawn.release.charge, purpose)
        return drawn.release

    def charge(self, drawn: Iterable[DrawnText], purpose: Purpose) -> tuple[float, int]:
        """Charge releases: all or none.

        Returns:
            The amount charged, and the number of releases charged; the others were charged before.

        Raises:
            QuotaExceeded: the ledger's limit or the disk.
        """
        charges = {each.digest: each.release.charge for each in drawn}
        return self._ledger.charge_each(charges, purpose)

    def drawn(
        self,
        opened: OpenBundle,
        document: str,
        setting: Setting,
        session: str = "",
        owners: Owners | None = None,
        asked: str = "",
    ) -> DrawnText:
        """Return a release from one bundle; the caller must charge it before using it."""
        key = self._keyring.current()
        more = self._ledger.apps.hiding(calling())
        with self._room_for(document):
            release = opened.privatizer.release(
                *(document, setting),
                key=key,
                session=session,
                owners=owners,
                hiding=more,
                asked=asked,
            )
        # The key in the ledger holds the meaning of level and policy, because two names of one
        # strength give the same release. It leaves out the session, because a surrogate reveals
        # nothing about its original. It holds the hidden words, because they cost nothing, and the
        # same words get noise once they are hidden no more.
        mechanism = repr(opened.privatizer.mechanism(setting))
        hidden = ("hidden", *release.always) if release.always else ()
        what = (mechanism, self._engine.fingerprint, opened.bundle.id, document, *hidden)
        return DrawnText(release, key.name("release", *what))

    @contextmanager
    def _room_for(self, document: str) -> Iterator[None]:
        """Wait for a free place, so that texts in work need a bounded amount of memory.

        Around a long text, unused memory is returned to the system. So the parts of the bundle that
        it needs are never resident together with the parts for the text before or after.
        """
        long = len(document) >= LONG
        with next(turn for least, turn in self._turns.items() if len(document) >= least):
            if long:
                memory.give_back_if_grown()
            try:
                yield
            finally:
                if long:
                    memory.give_back_if_grown()


MOST_DRAWS: Final = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a release.

    Attributes:
        text: as it would leave.
        became: "pass", "noise" or "draw" for a word, empty for the text between words.
        kept: whether a protected word was replaced by itself.
        hides: what a protected word is taken for, such as "person".
        typed: the word as it was typed.
    """

    text: str
    became: str = ""
    kept: bool = False
    hides: str = ""
    typed: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Releases of a text at a setting, or the reason why the limits allow none.

    Attributes:
        guessed: the share of noisy words that the strongest attacker guesses, measured when the
            bundle was built on the worst kind of text that was tried.
    """

    setting: Setting
    releases: tuple[Release, ...] = ()
    guessed: float = 0.0
    refused: str = ""

    @property
    def eta(self) -> float:
        return self.releases[0].eta

    @property
    def charge(self) -> float:
        """Return the cost of releasing the text."""
        return self.releases[0].charge

    def pieces(self) -> list[list[Piece]]:
        """Return each release's words, and the text between them."""
        return [[*_pieces(release)] for release in self.releases]


def settings(
    opened: OpenBundle, level: str, mechanism: str, policies: Iterable[str] = POLICIES
) -> list[Setting]:
    """Return the settings to try: of each policy, ``level`` or all levels, the strongest first.

    A policy without noise has one setting, as its releases are alike under all levels.

    Raises:
        NotFound: there is no such policy or mechanism.
    """
    levels = [level] if level else _levels(opened, mechanism)
    return [
        Setting(each, mechanism, policy.name)
        for policy in map(find, policies)
        for each in (levels if policy.with_noise() else levels[:1])
    ]


def tried(opened: OpenBundle, text: str, setting: Setting, draws: int) -> Trial:
    """Release a text ``draws`` times at a setting, for display.

    Raises:
        InvalidInput: the input is not a text.
        NotFound: there is no such level or mechanism.
    """
    try:
        opened.privatizer.mechanism(setting)
    except SottovoceError as error:
        if isinstance(error, NotFound):
            raise
        return Trial(setting, refused=error.problem)
    releases = tuple(opened.privatizer.release(text, setting) for _ in range(draws))
    level = opened.bundle.manifest.level(setting.mechanism, setting.level)
    return Trial(setting, releases, guessed(level))


def _levels(opened: OpenBundle, mechanism: str) -> list[str]:
    levels = opened.bundle.manifest.calibration.get(mechanism, {})
    if not levels:
        known = ", ".join(sorted(opened.bundle.manifest.calibration))
        raise NotFound("unknown mechanism", fix=f"use one of: {known}", subject="mechanism")
    return sorted(levels, key=lambda name: levels[name].eta)


def _pieces(release: Release) -> Iterator[Piece]:
    end = 0
    for word in release.each_word():
        if between := release.text[end : word.released_start]:
            yield Piece(between)
        end = word.released_end
        yield Piece(
            release.text[word.released_start : end],
            Treatment(word.treatment).name.lower(),
            word.protected and not word.replaced,
            _hides(word),
            release.document[word.start : word.end],
        )
    if rest := release.text[end:]:
        yield Piece(rest)
