"""What every channel that we open is told.

Why it is here: gRPC's own retries lose the end of a stream. One that is opened while its server
takes leave (every restart of a service) has failed, and says so; but the answer it was waiting for
is never given up, so whoever reads the stream waits for ever, deadline and cancellation
notwithstanding. With them off that does not happen; calls that may be made again are so by
`sottovoce.edge.client.repeats`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NO_RETRIES"]

NO_RETRIES: Final = ("grpc.enable_retries", 0)
