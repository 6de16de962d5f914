"""Headers that identify the tenant, and the services that require them.

The device sends them, the cloud checks them, and a balancer between them routes by them.
"""

from __future__ import annotations

from typing import Final

from sottovoce.v1 import generation_pb2, inference_pb2, training_pb2

__all__ = ["BEARER", "TENANTS_ONLY", "TENANT_KEY", "TOKEN_KEY"]

TENANT_KEY: Final = "sottovoce-tenant"
"""The header that names the tenant."""
TOKEN_KEY: Final = "authorization"  # noqa: S105 - the name of a header
BEARER: Final = "Bearer "
"""The prefix of the token in its header."""

TENANTS_ONLY: Final = (
    training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name,
    inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name,
    generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name,
)
"""The services that require a token."""
