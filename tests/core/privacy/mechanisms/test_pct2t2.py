"""A word's class is its own affair, and no class is small."""

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.pct2t2 import OWN, PCT2T2
from sottovoce.core.text.readings import READINGS


def test_what_it_promises() -> None:
    mechanism = PCT2T2.of(20.0, ("NOUN", "FACT"))
    assert mechanism.guarantee.eta == 20.0
    assert mechanism.guarantee.ldp_epsilon == 40.0
    assert mechanism.protects("FACT")
    assert not mechanism.protects("VERB")
    assert any("NOUN, FACT" in leak for leak in mechanism.guarantee.leaks)
    assert not mechanism.contextual


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
