"""The device's packages export names that exist, and importing them stays light."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import sottovoce.core
import sottovoce.edge

NEVER = ("torch", "transformers", "peft", "sottovoce.cloud")
WHEN_ASKED_FOR = ("spacy", "hnswlib", "opentelemetry")
"""May be imported within a function of a module that needs it, never by importing the module."""

MODULES = sorted(
    found.name
    for package in (sottovoce.core, sottovoce.edge)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.ispkg
)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_what_it_exports_and_says_why_it_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [each for each in getattr(module, "__all__", ()) if not hasattr(module, each)] == []
    assert (module.__doc__ or "").strip()


def test_importing_every_module_loads_nothing_heavy() -> None:
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
    heavy = {*NEVER, *WHEN_ASKED_FOR}
    assert [name for name in loaded if any(f"{name}.".startswith(f"{h}.") for h in heavy)] == []
