"""The EdgeAdapters service: cancelled, rolled back, deleted, for apps on the device."""

from __future__ import annotations

import grpc

from sottovoce.core.errors import InvalidInput
from sottovoce.edge.tasks.adapters import Adapters
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_adapters_pb2_grpc

__all__ = ["AdaptersService"]


class AdaptersService(edge_adapters_pb2_grpc.EdgeAdaptersServicer):
    """Answers apps; errors become status with details in `ErrorInterceptor`."""

    def __init__(self, own: Adapters) -> None:
        self._adapters = own

    def CancelCustomization(  # noqa: N802 - gRPC's name
        self, request: adapters.CancelCustomizationRequest, context: grpc.ServicerContext
    ) -> adapters.CancelCustomizationResponse:
        if not request.id:
            _check(request.adapter)
        return adapters.CancelCustomizationResponse(customization=self._adapters.cancel(request))

    def RollBackAdapter(  # noqa: N802
        self, request: adapters.RollBackAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.RollBackAdapterResponse:
        _check(request.adapter)
        return adapters.RollBackAdapterResponse(customization=self._adapters.roll_back(request))

    def DeleteAdapter(  # noqa: N802
        self, request: adapters.DeleteAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.DeleteAdapterResponse:
        _check(request.adapter)
        return adapters.DeleteAdapterResponse(deleted=self._adapters.delete(request))


def _check(adapter: str) -> None:
    if not adapter:
        raise InvalidInput("no adapter is named", fix="name one", subject="adapter")
