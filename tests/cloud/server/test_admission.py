"""Open calls are counted, in total and by tenant, and given back however they end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sottovoce.cloud.server.admission import Admission
from sottovoce.core.errors import Overloaded


def test_a_tenant_has_a_share_and_all_have_a_limit() -> None:
    admission = Admission(calls=3, per_tenant=2)
    with ExitStack() as calls:
        for tenant in ("a", "a", "b"):
            calls.enter_context(admission.admitted(tenant))
        with pytest.raises(Overloaded, match="this tenant"):
            calls.enter_context(admission.admitted("a"))
        with pytest.raises(Overloaded, match="too many calls"):
            calls.enter_context(admission.admitted("b"))
    with admission.admitted("a"), admission.admitted("a"), admission.admitted("b"):
        pass


def test_a_call_that_fails_is_over() -> None:
    admission = Admission(calls=1, per_tenant=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="its own"), admission.admitted("a"):
            raise ValueError("its own")
