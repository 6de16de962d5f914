"""A manifest with any value in any place opens, or is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.core.bundle.manifest import Manifest
from sottovoce.core.errors import SottovoceError
from tests.unit.core.bundle.test_manifest import Path_, _use, _with

WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, 10**400, "", "x", "\ud800", "a\0b", [], [[]], {}, {"": {}}),
    *([None], [1], ["x"], {"x": None}, {"x": 1}, {"x": "x"}, {"x": {"x": {}}}),
)


def _fields(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """The places of all values in parsed JSON; of many alike the first."""
    yield at
    if isinstance(value, dict):
        alike = at[:1] in (("calibration",), ("curve",), ("files",)) and len(at) < 3
        for name in [*value][: 1 if alike else None]:
            yield from _fields(value[name], (*at, name))
    elif isinstance(value, list):
        for place in range(min(1, len(value))):
            yield from _fields(value[place], (*at, place))


def test_each_field_of_each_wrong_type_works_or_is_refused_by_name(raw: dict[str, Any]) -> None:
    refused = []
    for at in _fields(raw):
        for value in WRONG:
            try:
                assert Manifest.from_json(_with(raw, at, value)).to_json()
            except SottovoceError as error:
                refused.append((at, error.problem))
    assert len(refused) > 1_000
    for at, problem in refused:
        assert "manifest.json" in problem or at == ("format",)
        if at and at[0] not in ("format", "files"):
            assert str(at[0]) in problem


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_manifest_with_any_value_anywhere_works_or_is_refused(
    data: st.DataObject, raw: dict[str, Any], small_bundle_folder: Path
) -> None:
    places = [*_fields(raw)]
    at = data.draw(st.sampled_from(places))
    numbers = st.integers() | st.floats(allow_nan=True) | st.sampled_from([10**400, 1 << 63])
    anything = st.recursive(
        st.none() | st.booleans() | numbers | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=8,
    )
    changed = _with(raw, at, data.draw(anything))
    with suppress(SottovoceError):
        _use(small_bundle_folder, changed)
