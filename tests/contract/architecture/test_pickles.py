"""No module reads a pickle, because opening one runs its writer's code."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.support.pickles import pickles

PARTS = ("protos", "core", "edge", "cloud", "models", "bench", "deploy", "examples", "clients")


def test_nothing_of_ours_reads_a_pickle() -> None:
    files = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
    assert len(files) > 300, "the sources lie elsewhere"
    places = {
        f"{file.relative_to(ROOT)}:{place}"
        for file in files
        for place in pickles(file.read_text(encoding="utf-8"))
    }
    assert not places


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import pickle as json",
        "from pickle import loads",
        "def late():\n    import shelve",
        "import numpy as np\nnp.load('a')",
        "import numpy as np\nnp.load('a', allow_pickle=True)",
        "import numpy as np\nnp.load('a', allow_pickle=ours)",
        "import numpy\nnumpy.load('a')",
        "from numpy import load",
        "import torch\ntorch.load('a')",
        "import torch as t\nt.load('a', weights_only=False)",
        "AutoModel.from_pretrained('a')",
        "table.read_pickle('a')",
    ],
)
def test_what_would_read_one_is_found(source: str) -> None:
    assert len(pickles(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.load(file)",
        "import numpy as np\nnp.load('a', allow_pickle=False)",
        "import torch\ntorch.load('a', weights_only=True)",
        "AutoTokenizer.from_pretrained('a')",
        "AutoModel.from_pretrained('a', use_safetensors=True)",
        "from .pickle import loads",
        "bundle.load('a')",
    ],
)
def test_what_reads_none_is_left_alone(source: str) -> None:
    assert pickles(source) == []
