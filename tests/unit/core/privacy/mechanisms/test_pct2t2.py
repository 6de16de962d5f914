"""A word's class is its own affair, and no class is small."""

import math

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T2
from sottovoce.core.text.word_classes import READINGS


def test_what_it_covers() -> None:
    mechanism = PCT2T2.of(Level(20.0), ("NOUN", "FACT"))
    assert mechanism.protects("FACT")
    assert not mechanism.protects("VERB")
    assert not mechanism.contextual


def level(**etas: float) -> Level:
    classes = {f"={name}": ClassLevel(eta, 0.5, 0.5, 0.1) for name, eta in etas.items()}
    return Level(max(etas.values()), classes=classes)


def test_each_class_has_the_noise_of_its_own_eta_and_pays_for_it() -> None:
    mechanism = PCT2T2.of(level(NOUN=20.0, VERB=5.0), ("NOUN", "VERB"))
    names = ["=NOUN", "=VERB", "=VERB", "=NOUN"]
    noisy = mechanism.perturb(np.zeros((4, 8), np.float32), np.random.default_rng(0), names)
    alike = PCT2T2(20.0, ()).perturb(
        np.zeros((4, 8), np.float32), np.random.default_rng(0), ["=NOUN"] * 4
    )
    assert np.allclose(noisy, alike * np.array([1, 4, 4, 1])[:, None], rtol=1e-6)
    assert mechanism.charge(names) == 50.0
    assert mechanism.charge([]) == 0.0


def test_a_class_without_an_eta_gets_the_loudest_noise() -> None:
    mechanism = PCT2T2.of(level(NOUN=20.0, VERB=5.0), ("NOUN", "VERB", "ADJ"))
    assert mechanism.eta_of("=ADJ") == 5.0
    assert PCT2T2(7.0, ()).eta_of("=ADJ") == 7.0


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_every_eta_must_be_positive(eta: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        PCT2T2(20.0, (), {"=NOUN": 20.0, "=VERB": eta})
    assert caught.value.subject == "eta"


@pytest.mark.parametrize(
    ("reading", "name"),
    [("NOUN", "=NOUN"), ("REFERENCE", "=CLOSED"), ("GRAMMAR", "=CLOSED"), ("OTHER", "=ADV")],
)
def test_small_readings_share_a_class(reading: str, name: str) -> None:
    mechanism = PCT2T2(20.0, READINGS)
    assert mechanism.word_class(reading, False) == name
    assert mechanism.word_class(reading, True) == "*+clitic"


def test_the_classes_of_the_built_bundle_partition_its_words(bundle: Bundle) -> None:
    mechanism = PCT2T2(20.0, READINGS)
    met = np.zeros(bundle.manifest.words, np.int64)
    for name in bundle.manifest.classes:
        if name.startswith(OWN):
            members = bundle.class_members(name)
            met[members] += 1
            assert len(members) >= 100
            found = {READINGS[each] for each in np.unique(bundle.readings[members])}
            assert {mechanism.word_class(each, False) for each in found} == {name}
    clitic = np.isin(np.array(list(bundle.words)), bundle.manifest.clitics)
    assert (met == ~clitic).all()
    assert (bundle.readings[clitic] == READINGS.index("CLITIC")).all()
