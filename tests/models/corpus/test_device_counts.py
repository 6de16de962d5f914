"""What ships with the device is cut from what bundles are built with."""

from __future__ import annotations

import gzip
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sottovoce.core.text.tagger import UPOS
from sottovoce.models.cli import main
from sottovoce.models.corpus.device_counts import LEAST, cut
from sottovoce.models.corpus.frequencies import FrequencyTable


def test_the_shipped_lists_are_up_to_date(shipped_models: Path, tmp_path: Path) -> None:
    command = ["device-counts", "--models", str(shipped_models), "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for name in ("counts.en.tsv.gz", "readings.en.tsv.gz"):
        shipped = resources.files("sottovoce.core.text") / name
        made = (tmp_path / name).read_bytes()
        # Compressed by whichever zlib there is.
        assert gzip.decompress(made) == gzip.decompress(shipped.read_bytes()), name


def test_common_words_keep_all_their_tags_and_rare_ones_are_one_number() -> None:
    rows = [
        ("march", False, "NOUN", LEAST - 1),
        ("march", False, "PROPN", 1),
        ("rare", False, "NOUN", 7),
        ("rarer", False, "NOUN", 2),
        ("rarer", False, "VERB", 1),
        ("'s", True, "AUX", LEAST),
        ("'s", False, "NOUN", 2),
    ]
    words, clitics, tags, counts = zip(*rows, strict=True)
    places = np.array([UPOS.index(tag) for tag in tags], np.uint8)
    table = FrequencyTable(words, np.array(clitics), places, np.array(counts), {})
    found = cut(table, {"ill": "FACT", "german": "ORIGIN"})
    assert found.words == ("march", "march", "'s")
    assert found.clitics.tolist() == [False, False, True]
    assert found.counts.tolist() == [LEAST - 1, 1, LEAST]
    assert found.tail == pytest.approx((7 + 3 + 2) / 3)
    assert list(found.listed) == ["german", "ill"]
