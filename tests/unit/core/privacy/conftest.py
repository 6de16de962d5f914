"""An engine for the tests of policies."""

from __future__ import annotations

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import PrivacyLimits
from sottovoce.core.privacy.privatizer import Privatizer


@pytest.fixture(scope="session")
def privatizer(bundle: Bundle) -> Privatizer:
    """Over the real bundle; its owner allows `personal`."""
    return Privatizer.of(bundle, floors=PrivacyLimits(least_policy="personal"))
