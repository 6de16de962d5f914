"""The device's package stays small, and one-way: no torch, no transformers, no cloud."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import sottovoce.core
import sottovoce.edge

FORBIDDEN = ("torch", "transformers", "peft", "sottovoce.cloud")
ONLY_WHEN_ASKED_FOR = ("spacy",)
"""May be imported within a function of a module that needs it, never by importing the module."""

SOURCES = [Path(folder) for p in (sottovoce.core, sottovoce.edge) for folder in p.__path__]
MODULES = sorted(
    found.name
    for package in (sottovoce.core, sottovoce.edge)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.name.endswith("__main__")
)

SURFACE = {
    "core.bundle.folder": "Bundle",
    "core.bundle.levels": "ATTACKED EmbedLevel Level MEASURES between by_eta is_target "
    "name_of span",
    "core.bundle.manifest": "ANY Backbone CLITIC FORMAT MANIFEST Manifest StoredFile WordClass "
    "bundle_id class_name sha256",
    "core.text.casing": "Case apply shape",
    "core.errors": "BundleMismatch ConfigError DataLoss InvalidInput NotFound NotReady OutOfRange "
    "Overloaded QuotaExceeded SottovoceError Unauthenticated Unavailable",
    "core.privacy.mechanisms.interface": "ALWAYS_LEAKS Guarantee Mechanism SphericalNoise",
    "core.privacy.mechanisms.pct2t": "PCT2T",
    "core.privacy.mechanisms.registry": "DEFAULT MECHANISMS find make",
    "core.privacy.mechanisms.t2t": "T2T",
    "core.privacy.noise": "Floats2d Random SecureRandom draw",
    "core.privacy.plain_tokens": "DEFAULT_VOCABULARY Vocabulary candidates draw sequences "
    "vocabulary",
    "core.privacy.privatizer": "LONGEST_WORD Privatizer STAGES WINDOW",
    "core.system.memory": "bound_heap give_back",
    "core.privacy.release": "Draft IDENTIFIER PUNCTUATION Release WordRelease",
    "core.wire.limits": "FEWEST_EXAMPLES LARGEST_MESSAGE LARGEST_TEXT LONGEST_LABEL MOST "
    "MOST_EXAMPLES MOST_LABELS MOST_SEQUENCES NAME",
    "core.wire.status": "ErrorInterceptor RETRY_SECONDS from_rpc_error kind_and_place to_status "
    "wrapped",
    "core.privacy.search": "ExactIndex HnswIndex Index Search",
    "core.privacy.setting": "LEVELS POLICIES Setting",
    "core.system.signals": "Ending",
    "core.text.checks": "LARGEST_TEXT check_text decode",
    "core.privacy.token_embedding": "LONGEST TokenEmbedding TokenNoise pack unpack",
    "core.privacy.vectors": "Vectors unit_rows",
    "core.bundle.word_list": "WordIds WordList",
}
"""What others may rely on; a change here is a change for them."""


def imports(tree: ast.AST) -> set[str]:
    """Every module named by an import statement, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_no_source_names_a_forbidden_package() -> None:
    files = [file for folder in SOURCES for file in folder.rglob("*.py")]
    assert len(files) > 10
    for file in files:
        found = imports(ast.parse(file.read_text("utf-8")))
        assert not [name for name in found if within(name, FORBIDDEN)], file


def test_the_scan_would_find_one() -> None:
    for source in (
        "import torch",
        "def f():\n    from torch.nn import functional",
        "from sottovoce import cloud",
        "from sottovoce.cloud.building.attack import WordMapAttack",
    ):
        assert any(within(name, FORBIDDEN) for name in imports(ast.parse(source)))


def test_importing_every_module_loads_none_of_them() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {MODULES!r}: importlib.import_module(name)\n"
        "print('\\n'.join(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = answer.stdout.split()
    assert "sottovoce.core.privacy.privatizer" in loaded
    assert not [name for name in loaded if within(name, FORBIDDEN + ONLY_WHEN_ASKED_FOR)]


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_the_public_surface_is_pinned(name: str) -> None:
    module = importlib.import_module(f"sottovoce.{name}")
    assert sorted(module.__all__) == sorted(SURFACE[name].split())
    for exported in module.__all__:
        assert hasattr(module, exported)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_why_it_is_there(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()
