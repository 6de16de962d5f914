"""A mechanism is known by its name alone, and a new one is a module and a line."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.levels import ClassLevel, Level
from sottovoce.core.errors import InvalidInput, NotFound
from sottovoce.core.privacy import mechanisms, noise
from sottovoce.core.privacy.mechanisms import MECHANISMS, spherical
from sottovoce.core.privacy.mechanisms.spherical import OWN, PCT2T, PCT2T2, T2T
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.word_classes import READINGS


def test_names_are_versioned_and_the_default_comes_first() -> None:
    assert list(MECHANISMS) == ["pct2t.v2", "pct2t.v1", "t2t.v1"]
    assert mechanisms.DEFAULT == "pct2t.v2" == Setting().mechanism


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_line_leads_to_the_mechanism_of_its_name(name: str) -> None:
    mechanism = mechanisms.make(name, Level(2.0), ("NOUN",))
    assert (mechanism.name, mechanism.eta) == (name, 2.0)
    assert mechanism.protects("NOUN")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(NotFound) as caught:
        mechanisms.find("t2t.v9")
    assert (caught.value.problem, caught.value.subject) == ("unknown mechanism", "mechanism")
    assert "pct2t.v1, t2t.v1" in caught.value.fix


def test_listing_the_names_loads_no_numpy() -> None:
    code = "import sys, sottovoce.core.privacy.policies; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_perturb_adds_the_noise_of_its_eta_afresh_to_every_row() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    noisy = T2T(5.0).perturb(vectors, np.random.default_rng(0), ["*"] * 3)
    assert noisy.dtype == np.float32
    assert np.array_equal(noisy, vectors + noise.draw(np.random.default_rng(0), 3, 4, 5.0))
    assert len(np.unique(noisy - vectors, axis=0)) == 3


def test_the_charge_is_eta_a_word() -> None:
    assert T2T(2.5).charge(["*"] * 4) == 10.0
    assert PCT2T(2.5, ("NOUN",)).charge([]) == 0.0
    assert T2T(2.5).eta_of("*+clitic") == 2.5


def test_what_is_covered_and_where_it_may_move() -> None:
    every, some = T2T.of(Level(1.0), ("NOUN",)), PCT2T.of(Level(1.0), ("NOUN", "OTHER"))
    assert (every.tags, some.tags) == (None, ("INTJ", "NOUN", "SYM", "X"))
    assert every.protects("DET")
    assert not some.protects("DET")
    assert some.protects("X")
    assert every.word_class("NOUN", False) == "*"
    assert every.word_class("AUX", True) == "*+clitic"
    assert some.word_class("NOUN", False) == "NOUN"
    assert some.word_class("AUX", True) == "AUX+clitic"


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_eta_must_be_positive(eta: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        T2T(eta)
    assert caught.value.subject == "eta"
    assert caught.value.problem == "eta must be a positive number"
    assert caught.value.fix == "take a calibrated level"


@pytest.mark.parametrize("module", [mechanisms, spherical])
def test_examples_in_the_docstrings(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted
    assert not outcome.failed


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
