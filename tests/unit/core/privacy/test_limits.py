"""The owner's limits hold whatever a bundle calls its levels."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.policies import LARGEST_ETA, POLICIES, PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import Tagger


@pytest.mark.parametrize("eta", [100.001, 1e6, math.inf, math.nan])
def test_no_eta_beyond_the_largest_nor_none(eta: float) -> None:
    floors = PrivacyLimits(100.0)
    floors.check_etas(5.0, 100.0)
    for etas in ((eta,), (5.0, eta), (eta, 5.0)):
        with pytest.raises(NotReady, match="allows 100 at most") as caught:
            floors.check_etas(*etas)
        assert caught.value.subject == "privacy.largest_eta"


def test_every_level_of_the_default_bundle_is_allowed(bundle: Bundle) -> None:
    for levels in bundle.manifest.calibration.values():
        for level in levels.values():
            PrivacyLimits(LARGEST_ETA).check_etas(level.eta, *level.etas.values())


@pytest.mark.parametrize(
    ("least", "allowed"),
    [
        ("names", {"names", "content", "papers", "all"}),
        ("content", {"content", "all"}),
        ("papers", {"papers", "all"}),
        ("all", {"all"}),
    ],
)
def test_no_policy_that_lets_more_pass_than_the_least(
    small_bundle: Bundle, least: str, allowed: set[str]
) -> None:
    privatizer = Privatizer(small_bundle, floors=PrivacyLimits(least_policy=least))
    for name in POLICIES:
        setting = Setting("strong", "pct2t.v2", name)
        if name in allowed:
            assert privatizer.release("the pond", setting).text
            continue
        with pytest.raises(NotReady, match="lets words pass") as caught:
            privatizer.release("the pond", setting)
        assert caught.value.subject == "privacy.least_policy"


@pytest.mark.parametrize("hidden", [False, True])
def test_nothing_is_released_beyond_the_largest(
    small_bundle: Bundle, lexicon_tagger: Tagger, hidden: bool
) -> None:
    """Nor where the eta of one class alone is beyond it, whatever the level says is its largest."""
    setting = Setting("strong", "t2t.v1")
    honest = small_bundle.manifest.level(setting.mechanism, setting.level)
    one = {"*": ClassLevel(1e6, 0.5, 0.5, 0.5)}
    louder: Level = replace(honest, classes=one) if hidden else replace(honest, eta=1e6)
    calibration = small_bundle.manifest.calibration | {"t2t.v1": {"strong": louder}}
    manifest = replace(small_bundle.manifest, calibration=calibration)
    told = Bundle(small_bundle.folder, manifest, small_bundle.id)
    for bundle, allowed in ((small_bundle, True), (told, False)):
        privatizer = Privatizer(bundle, tagger=lambda: lexicon_tagger, floors=PrivacyLimits(100.0))
        if allowed:
            assert privatizer.release("the pond", setting).text
            assert privatizer.release_plain_tokens([1], setting)
            continue
        with pytest.raises(NotReady, match="owner"):
            privatizer.release("the pond", setting)
        with pytest.raises(NotReady, match="owner"):
            privatizer.release_plain_tokens([1], setting)
