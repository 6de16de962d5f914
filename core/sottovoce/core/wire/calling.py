"""The options of every gRPC channel that this project opens.

gRPC's own retries are off, because they lose the end of a stream. If a stream is opened while its
server shuts down (at every restart of a service), the call fails and reports it. But gRPC then
never completes the response, so its reader waits for ever, despite deadline and cancellation.
Without gRPC's retries this does not happen. `sottovoce.edge.client.repeats` retries the calls that
may be repeated.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NO_RETRIES"]

NO_RETRIES: Final = ("grpc.enable_retries", 0)
