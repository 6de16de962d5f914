"""Show the effect of a setting on a text, with noise that is only for display.

An owner can see a level before choosing it. Nothing is sent or charged. The noise is fresh, so a
later release is another draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import NotFound, SottovoceError
from sottovoce.core.privacy.policies import POLICIES, Treatment, find
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.setting import Setting
from sottovoce.edge.tasks.engine import OpenBundle
from sottovoce.edge.tasks.spending import guessed

__all__ = ["MOST_DRAWS", "Piece", "Trial", "settings", "tried"]

MOST_DRAWS: Final = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a release.

    Attributes:
        text: as it would leave.
        became: "pass", "noise" or "draw" for a word, empty for the text between words.
        kept: whether a protected word was replaced by itself.
    """

    text: str
    became: str = ""
    kept: bool = False


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
        """Return eta of the level."""
        return self.releases[0].eta

    @property
    def charge(self) -> float:
        """Return the cost of releasing the text."""
        return self.releases[0].charge

    def pieces(self) -> list[list[Piece]]:
        """Return each release's words, and the text between them."""
        return [[*_pieces(release)] for release in self.releases]


def settings(opened: OpenBundle, level: str, mechanism: str, policy: str) -> list[Setting]:
    """Return the settings to try: without a name, each level of each policy.

    The strongest come first.

    Raises:
        NotFound: there is no such policy or mechanism.
    """
    return [
        Setting(each, mechanism, find(name).name)
        for name in ([policy] if policy else POLICIES)
        for each in ([level] if level else _levels(opened, mechanism))
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
        )
    if rest := release.text[end:]:
        yield Piece(rest)
