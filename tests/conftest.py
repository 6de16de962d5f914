"""What all tests share: the real bundle where one was built, and a small one made here."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.edge import config
from tests.support import threads
from tests.support.paths import BUNDLE, MODELS
from tests.support.small_bundle import LexiconFinder, LexiconTagger, write_small_bundle

# pytest imports readline, which sets COLUMNS and LINES in the process's C environment. Workers and
# programs that tests start would inherit the two, and print tables of 80 columns.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)
    os.unsetenv(_name)

# How long an example takes says nothing here: the first one opens models.
hypothesis.settings.register_profile("sottovoce", deadline=None)
hypothesis.settings.load_profile("sottovoce")


@pytest.fixture(scope="module", autouse=True)
def _no_module_leaves_threads() -> Iterator[None]:
    with threads.none_left(in_pools=True):
        yield


@pytest.fixture(autouse=True)
def _no_test_leaves_threads() -> Iterator[None]:
    with threads.none_left(in_pools=False):
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_test_meets_an_agent_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    config.MACHINE = tmp_path_factory.getbasetemp() / "no machine's agent.toml"


@pytest.fixture(scope="session")
def small_bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the small bundle; not to be changed (copy it first)."""
    folder = tmp_path_factory.mktemp("bundles") / "small"
    write_small_bundle(folder)
    return folder


@pytest.fixture(scope="session")
def small_bundle(small_bundle_folder: Path) -> Bundle:
    return Bundle.open(small_bundle_folder)


@pytest.fixture(scope="session")
def lexicon_tagger() -> LexiconTagger:
    return LexiconTagger()


@pytest.fixture(scope="session")
def small_privatizer(small_bundle: Bundle, lexicon_tagger: LexiconTagger) -> Privatizer:
    return Privatizer(small_bundle, LexiconFinder(), tagger=lambda: lexicon_tagger)


@pytest.fixture(scope="session")
def bundle_folder() -> Path:
    """Folder of the real bundle."""
    if not (BUNDLE / "manifest.json").is_file():
        pytest.fail("no built bundle: run `make bundle`, or point SOTTO_TEST_BUNDLE at one")
    return BUNDLE


@pytest.fixture(scope="session")
def bundle(bundle_folder: Path) -> Bundle:
    return Bundle.open(bundle_folder)


@pytest.fixture(scope="session")
def privatizer(bundle: Bundle) -> Privatizer:
    return Privatizer.of(bundle)


@pytest.fixture(scope="session")
def counted_words() -> list[tuple[str, bool, str, int]]:
    """Words of public text: the word, whether a clitic, its tag, how often it was met so."""
    table = MODELS / "frequencies" / "words.tsv.gz"
    with gzip.open(table, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(r["word"], r["clitic"] == "1", r["tag"], int(r["count"])) for r in rows]
