from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core import errors
from sottovoce.core.errors import NotReady, Remedy, Side, speaking_to
from sottovoce.core.rpc.error_status import to_status
from tests.support.paths import ROOT

KINDS = [getattr(errors, name) for name in errors.__all__]


def test_the_tree_is_drawn_as_it_is() -> None:
    drawing = errors.__doc__ or ""
    for kind in KINDS:
        lines = [line for line in drawing.splitlines() if kind.__name__ in line.split()]
        assert len(lines) == 1, kind
        if "exit" in lines[0]:
            *_, code, _, number = lines[0].split()
            assert (kind.code.name, str(kind.exit_code)) == (code, number)


def test_exit_codes_tell_kinds_apart() -> None:
    own = [kind for kind in KINDS if "exit_code" in vars(kind)]
    assert len({kind.exit_code for kind in own}) == len(own)
    of_another = {errors.BundleMismatch, errors.Overloaded, errors.PermissionDenied}
    assert set(KINDS) - set(own) == of_another


COMMANDS = {Side.DEVICE: "`sotto ", Side.PROVIDER: "`sotto-cloud "}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("remedy", Remedy)
def test_a_remedy_names_commands_of_the_side_that_reads_it(remedy: Remedy, side: Side) -> None:
    with speaking_to(side):
        error = NotReady("it broke", fix=remedy)
    other = COMMANDS[Side(1 - side)]
    assert error.fix
    assert other not in error.fix or error.fix.startswith("ask the provider")
    assert NotReady("it broke", fix=remedy).fix == remedy.value[Side.DEVICE]


def test_a_caller_of_the_provider_is_sent_to_the_provider() -> None:
    with speaking_to(Side.PROVIDER):
        error = NotReady("it broke", fix=Remedy.RESTORE_BUNDLE)
        assert "ask the provider to build" in to_status(error).message
    assert error.fix.startswith("build")
    own = NotReady("it broke", fix=Remedy.RESTORE_BUNDLE)
    assert own.fix in to_status(own).message
    assert "ask" not in to_status(NotReady("it broke", fix="mend it")).message


def _strings(file: Path) -> Iterator[str]:
    """The strings of a module that are no docstrings; of one in parts, the whole."""
    text = file.read_text("utf-8")
    tree = ast.parse(text if "`sotto" in text else "")
    told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield node.value


def test_shared_code_leaves_the_choice_of_commands_to_the_side() -> None:
    """What core raises, both sides read: commands stand in `Remedy` alone."""
    shared = ROOT / "core" / "sottovoce" / "core"
    files = [file for file in shared.rglob("*.py") if file != shared / "errors.py"]
    assert len(files) > 50
    named = {
        (str(file.relative_to(shared)), text)
        for file in files
        for text in _strings(file)
        if re.search(r"`sotto(-cloud|-models)? ", text)
    }
    assert named == set()


def test_a_device_names_the_providers_commands_only_to_be_asked_for() -> None:
    for file in (ROOT / "edge" / "sottovoce" / "edge").rglob("*.py"):
        for text in _strings(file):
            if "`sotto-cloud" in text:
                assert "provider" in text, (file, text)
