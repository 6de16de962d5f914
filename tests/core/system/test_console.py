"""What all commands share."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from sottovoce.core import errors
from sottovoce.core.system.console import Command, json_option
from sottovoce.edge.cli.common import numbered

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_json", [False, True])
def test_each_kind_of_error_has_its_exit_code_and_keeps_output_clean(
    kind: type[errors.SottovoceError], as_json: bool
) -> None:
    @click.command(cls=Command)
    @json_option
    def fails(as_json: bool) -> None:
        raise kind("it broke", fix="mend it", subject="it")

    result = CliRunner().invoke(fails, ["--json"] if as_json else [])
    assert result.exit_code == kind.exit_code
    assert result.stdout == ""
    if as_json:
        assert json.loads(result.stderr)["error"] == {
            "code": kind.code.name,
            "problem": "it broke",
            "fix": "mend it",
            "subject": "it",
        }
    else:
        assert result.stderr == "error: it broke\n  fix: mend it\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_is_put_in_front_of_the_same_error(kind: type[errors.SottovoceError]) -> None:
    error = kind("it broke", fix="mend it", subject="it", metadata={"a": "b"})
    placed = numbered(error, "line 7")
    assert type(placed) is kind
    assert placed.problem == "line 7: it broke"
    assert (placed.fix, placed.subject, placed.metadata) == ("mend it", "it", {"a": "b"})


def test_bugs_are_not_dressed_up_as_errors() -> None:
    @click.command(cls=Command)
    def broken() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(broken).exception, ZeroDivisionError)
