"""An adapter gives the same logits in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.processes import environment
from tests.support.serving import all_methods, predicting, served

TEXTS = [row.text for row in examples(2, seed=4)]

IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
from tests.support.serving import predicting, served
asked = [(Path(folder), text) for folder, text in json.loads(sys.argv[2])]
with predicting(sys.argv[1]) as predictor:
    print(json.dumps([row.tolist() for row in served(predictor, asked)]))
"""


def test_every_method_reloads_to_identical_logits_in_a_new_process(
    families: dict[str, Path], tmp_path: Path
) -> None:
    made = all_methods(families["qwen2"], tmp_path)
    asked = [(str(one.folder), text) for one in made for text in TEXTS]
    there = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, families["qwen2"], json.dumps(asked)],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment(),
        text=True,
    )
    with predicting(families["qwen2"]) as predictor:
        here = served(predictor, [(Path(folder), text) for folder, text in asked])
    assert [row.tolist() for row in here] == json.loads(there.stdout)
