"""The front process, which serves jobs: uploads, watches, cancellations, deletions.

Uploads and watches stay open for hours and need only the database. A front loads no model. It
starts in a moment and takes a tenth of a replica's memory. Its death disturbs no prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sottovoce.cloud.api.bundles_service import open_bundles
from sottovoce.cloud.api.listener import TRAINING, Listener, until_told
from sottovoce.cloud.api.training_service import FOLLOWERS, UPLOADS, WATCHES, TrainingService
from sottovoce.cloud.config import Settings
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import clear, keep_room
from sottovoce.cloud.jobs.queue import Queue, overview
from sottovoce.cloud.metrics import CallMetrics, JobsCollector
from sottovoce.cloud.store import bundles, check_objects, open_database
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.v1 import training_pb2_grpc


class Front:
    """The gRPC server of a front.

    Raises:
        ConfigError: the port is taken, no bundle is given, or a TLS file is unreadable.
    """

    def __init__(self, settings: Settings) -> None:
        self.database = open_database(
            settings.state, settings.store, settings.objects, settings.key_file
        )
        check_objects(self.database)
        opened = open_bundles(bundles.folders(self.database, settings.bundles))
        clear(settings.state, Queue(self.database))
        self.database.keys.check(self.database)
        jobs = Jobs(self.database, settings.limits)
        keep_room(settings.state)
        quotas.note(self.database, settings.limits, quotas.OF_SERVERS)
        tenants = Tenants(self.database)
        metrics = CallMetrics()
        metrics.registry.register(JobsCollector(partial(overview, self.database)))
        calls = UPLOADS + WATCHES + FOLLOWERS
        self._listener = Listener(
            settings, tenants, metrics, (TRAINING,), calls, self.database.news
        )
        self.address = self._listener.address
        training_pb2_grpc.add_TrainingServiceServicer_to_server(  # type: ignore[no-untyped-call]
            TrainingService(jobs, tenants, opened), self._listener.server
        )

    def start(self) -> None:
        self._listener.start()

    def stop(self) -> None:
        """Refuse new calls, let open calls end, and free everything."""
        self._listener.stop()
        self._listener.close()
        self.database.close()


def serve(settings: Settings, on_ready: Callable[[Front], None]) -> None:
    """Run a front until SIGTERM or SIGINT."""
    until_told(lambda: Front(settings), on_ready)
