"""What of a call tells whose it is, and which services ask for that.

Why it is here: a device says it, the cloud checks it, and a balancer between them goes by it.
"""

from __future__ import annotations

from typing import Final

from sottovoce.v1 import generation_pb2, inference_pb2, training_pb2

__all__ = ["BEARER", "TENANTS_ONLY", "TENANT_KEY", "TOKEN_KEY"]

TENANT_KEY: Final = "sottovoce-tenant"
"""The header that names the tenant."""
TOKEN_KEY: Final = "authorization"  # noqa: S105 - the name of a header
BEARER: Final = "Bearer "
"""What stands there before the token."""

TENANTS_ONLY: Final = (
    training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name,
    inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name,
    generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name,
)
"""The services that nobody calls without a token."""
