from __future__ import annotations

import pytest
from google.rpc import code_pb2

from sottovoce.core import errors
from sottovoce.core.errors import SottovoceError

KINDS = [getattr(errors, name) for name in errors.__all__]


def test_the_tree_is_drawn_as_it_is() -> None:
    drawing = errors.__doc__ or ""
    for kind in KINDS:
        lines = [line for line in drawing.splitlines() if kind.__name__ in line.split()]
        assert len(lines) == 1, kind
        if "exit" in lines[0]:
            *_, code, _, number = lines[0].split()
            assert (kind.code.name, str(kind.exit_code)) == (code, number)


def test_every_error_has_one_root_and_a_code() -> None:
    for kind in KINDS:
        assert issubclass(kind, SottovoceError)
        assert kind.code == getattr(code_pb2, kind.code.name)
        assert 0 < kind.exit_code < 128


def test_exit_codes_tell_kinds_apart() -> None:
    own = [kind for kind in KINDS if "exit_code" in vars(kind)]
    assert len({kind.exit_code for kind in own}) == len(own)
    of_another = {errors.BundleMismatch, errors.Overloaded, errors.PermissionDenied}
    assert set(KINDS) - set(own) == of_another


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_reads_as_problem_and_fix(kind: type[SottovoceError]) -> None:
    error = kind("it broke", fix="mend it", subject="it", metadata={"a": "1"})
    assert str(error) == "it broke (mend it)"
    assert (error.problem, error.fix, error.subject) == ("it broke", "mend it", "it")
    assert error.metadata == {"a": "1"}
    assert str(kind("it broke")) == "it broke"
