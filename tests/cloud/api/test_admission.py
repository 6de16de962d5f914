"""Open calls are counted, in total and by tenant, and given back however they end."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from sottovoce.cloud.api.admission import Admission
from sottovoce.core.errors import Overloaded


def test_a_tenant_has_a_share_and_all_have_a_limit() -> None:
    admission = Admission(calls=4, per_tenant=2)
    for _ in range(2):
        with ExitStack() as calls:
            for tenant in ("a", "a", "b"):
                calls.enter_context(admission.admitted(tenant))
            with pytest.raises(Overloaded, match="this tenant"):
                calls.enter_context(admission.admitted("a"))
            with pytest.raises(Overloaded, match="too many calls"):
                calls.enter_context(admission.admitted("b"))
            calls.enter_context(admission.admitted("c"))
            with pytest.raises(Overloaded, match="too many calls"):
                calls.enter_context(admission.admitted("d"))


@pytest.mark.parametrize("crowd", [4, 30, 60])
def test_tenants_that_hold_all_they_can_leave_room_for_another(crowd: int) -> None:
    admission = Admission(calls=128, per_tenant=32)
    with ExitStack() as calls:
        for _ in range(32):  # in turns, and each as often as it may
            for number in range(crowd):
                with suppress(Overloaded):
                    calls.enter_context(admission.admitted(f"greedy-{number}"))
        calls.enter_context(admission.admitted("a"))


def test_a_call_that_fails_is_over() -> None:
    admission = Admission(calls=1, per_tenant=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="its own"), admission.admitted("a"):
            raise ValueError("its own")
