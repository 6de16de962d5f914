"""An agent that takes examples in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.tasks.customize import Customizer
from sottovoce.edge.tasks.parts import Parts
from tests.support.agent import customizing

Customizing = tuple[Customizer, Parts]


@pytest.fixture
def customizing_agent(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[Customizing]:
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as both:
        yield both


@pytest.fixture
def customizer(customizing_agent: Customizing) -> Customizer:
    return customizing_agent[0]


@pytest.fixture
def device(customizing_agent: Customizing) -> Parts:
    return customizing_agent[1]
