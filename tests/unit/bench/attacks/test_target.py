"""A target holds against who also reads the sentence, on text that no count has seen."""

from __future__ import annotations

from pathlib import Path

from bench.attacks.channels import Words
from bench.attacks.harness import MECHANISMS, Budget
from bench.attacks.run import DATA_SETS, Place
from sottovoce.core.privacy.setting import Setting
from tests.support.paths import MODELS
from tests.support.shared_data import shared_data

ENOUGH = Budget(450, 500_000, (0, 0), (0, 0, 0), (0, 0), 0)


def test_a_target_is_met_by_the_strongest_attack_on_what_is_sent(bundle_folder: Path) -> None:
    data = shared_data(*DATA_SETS)
    harness = Place(bundle_folder, MODELS, data, ENOUGH).harness()
    assert harness.judged.all.sum() >= 3_500
    for mechanism in MECHANISMS:
        found = harness.on_words(Words(harness.public, Setting("attack:0.3", mechanism)))
        best = max(found.rows, key=lambda row: float(row["success"]))
        assert best["attack"] == "MAP in context"
        # The standard error is .009 (sentences): of a setting that truly loses .36, one sample in
        # 10,000 would pass. Seeded.
        assert 0.08 < best["success"] <= 0.33
