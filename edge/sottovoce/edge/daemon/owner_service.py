"""EdgeOwnerService: calls for the owner of the device alone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import grpc

from sottovoce.core.errors import Unavailable
from sottovoce.edge.tasks.agent import Agent
from sottovoce.v1 import edge_owner_pb2 as owner
from sottovoce.v1 import edge_owner_pb2_grpc

if TYPE_CHECKING:
    from sottovoce.edge.daemon.page.page import Page

__all__ = ["OwnerService"]


class OwnerService(edge_owner_pb2_grpc.EdgeOwnerServiceServicer):
    """Serve the owner's commands, and open the page.

    `ErrorInterceptor` turns errors into statuses with details.
    """

    def __init__(self, device: Agent) -> None:
        self._agent = device
        self._lock = threading.Lock()
        self._page: Page | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(0, 0)
        if self._page is not None:
            self._page.close()

    def stop(self, grace: float, closing: float) -> None:
        """Stop the page (see `Doorway.stop`), and let no page be opened from now on."""
        with self._lock:
            self._stopped = True
            if self._page is not None:
                self._page.stop(grace, closing)

    def OpenPage(  # noqa: N802 - gRPC's name
        self, request: owner.OpenPageRequest, context: grpc.ServicerContext
    ) -> owner.OpenPageResponse:
        with self._lock:
            if self._stopped:
                raise Unavailable("the agent is stopping", fix="ask again when it runs")
            if self._page is None:
                from sottovoce.edge.daemon.page.page import Page  # imports h11: only on demand

                self._page = Page(self._agent)
            return owner.OpenPageResponse(url=self._page.open())

    def GetSpending(  # noqa: N802
        self, request: owner.GetSpendingRequest, context: grpc.ServicerContext
    ) -> owner.GetSpendingResponse:
        return self._agent.spending()
