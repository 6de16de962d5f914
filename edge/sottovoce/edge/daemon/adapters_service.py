"""EdgeAdaptersService: cancel, roll back, delete and correct adapters."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from sottovoce.core.errors import InvalidInput
from sottovoce.edge.tasks.agent import Agent
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_adapters_pb2_grpc

__all__ = ["AdaptersService"]


class AdaptersService(edge_adapters_pb2_grpc.EdgeAdaptersServiceServicer):
    """Serve calls about adapters.

    `ErrorInterceptor` turns errors into statuses with details.
    """

    def __init__(self, device: Agent) -> None:
        self._agent = device

    def CancelCustomization(  # noqa: N802 - gRPC's name
        self, request: adapters.CancelCustomizationRequest, context: grpc.ServicerContext
    ) -> adapters.CancelCustomizationResponse:
        if not request.id:
            _check(request.adapter)
        return adapters.CancelCustomizationResponse(customization=self._agent.cancel(request))

    def RollBackAdapter(  # noqa: N802
        self, request: adapters.RollBackAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.RollBackAdapterResponse:
        _check(request.adapter)
        return adapters.RollBackAdapterResponse(customization=self._agent.roll_back(request))

    def DeleteAdapter(  # noqa: N802
        self, request: adapters.DeleteAdapterRequest, context: grpc.ServicerContext
    ) -> adapters.DeleteAdapterResponse:
        _check(request.adapter)
        return adapters.DeleteAdapterResponse(deleted=self._agent.delete(request))

    def KeepCorrections(  # noqa: N802
        self, request: adapters.KeepCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.KeepCorrectionsResponse:
        _check(request.adapter)
        return adapters.KeepCorrectionsResponse(waiting=self._agent.keep_corrections(request))

    def ListCorrections(  # noqa: N802
        self, request: adapters.ListCorrectionsRequest, context: grpc.ServicerContext
    ) -> Iterator[adapters.ListCorrectionsResponse]:
        _check(request.adapter)
        for correction in self._agent.corrections(request.adapter):
            yield adapters.ListCorrectionsResponse(correction=correction)

    def ForgetCorrections(  # noqa: N802
        self, request: adapters.ForgetCorrectionsRequest, context: grpc.ServicerContext
    ) -> adapters.ForgetCorrectionsResponse:
        _check(request.adapter)
        forgotten = self._agent.forget_corrections(request)
        return adapters.ForgetCorrectionsResponse(forgotten=forgotten)


def _check(adapter: str) -> None:
    if not adapter:
        raise InvalidInput("no adapter is named", fix="name one", subject="adapter")
