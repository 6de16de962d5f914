"""A mechanism is known by its name alone, and a new one is a module and a line."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import NotFound
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.mechanisms import MECHANISMS
from sottovoce.core.privacy.policies import Setting


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


def test_examples_in_the_docstrings() -> None:
    outcome = doctest.testmod(mechanisms)
    assert outcome.attempted
    assert not outcome.failed
