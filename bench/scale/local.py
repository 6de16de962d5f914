"""A whole cloud on this machine, beside one process; then its parts are killed, one by one.

Real daemons ask through real balancers; what died is started again at once, as systemd or
Kubernetes would. Jobs that are compared bit by bit are put into the database as they are: what
devices release is drawn anew for every job.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from safetensors.torch import load_file

from bench.console import Figures, Table, table
from bench.live import postgres_server, s3_server
from bench.live.testbed import Agent, Cloud, Role
from bench.scale.callers import Callers
from bench.scale.roles import Roles, roles
from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import FINAL, Example, Job, Release, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import Unavailable

__all__ = ["LOST", "measure", "tables"]

_TEXTS = Path("examples/helpdesk")
_TENANT = "compared"
_EXAMPLES, _EPOCHS = 40, 6
"""Epochs of a job; the devices' own jobs have one epoch."""
_PATIENCE = 300.0
"""Longest wait for any step, in seconds."""
LOST = "another worker has it now"
"""The log line of a trainer that finds its lease lost."""


def measure(folder: Path, bundle: Path, *, devices: int, callers: int, seconds: float) -> Figures:
    """Run all measurements; needs PostgreSQL, an S3 server and HAProxy.

    Args:
        folder: an empty folder.
        bundle: the bundle that all parts serve.
        devices: number of daemons, each of a different tenant.
        callers: number of callers for each device, each with one open call.
        seconds: duration of the throughput measurement, and of that after each kill.

    Raises:
        SystemExit: PostgreSQL, the S3 server or HAProxy is missing.
    """
    programs, bucket_program = postgres_server.found(), s3_server.found()
    if programs is None:
        raise SystemExit(postgres_server.HINT)
    if bucket_program is None:
        raise SystemExit(s3_server.HINT)
    texts = [line.split("\t")[0] for line in (_TEXTS / "test.tsv").read_text().splitlines()[1:]]
    found: Figures = {}
    with ExitStack() as stack:
        alone = Cloud.at(folder / "alone", bundle)
        stack.callback(alone.kill)
        alone.start()
        agents = [_enrolled(stack, alone, folder / f"a{n}", f"t{n}") for n in range(devices)]
        for agent in agents:
            _customise(agent, "desk")
        with Callers([a.address for a in agents], "desk", texts, callers) as asking:
            asking.measured(2.0)  # warm
            found["serve"] = asking.measured(seconds)
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server.running(programs))
        buckets = stack.enter_context(s3_server.running(bucket_program))
        os.environ.update(buckets.environment)  # for all that are started, too
        parts = stack.enter_context(
            roles(folder / "many", bundle, server.url(), objects=buckets.new())
        )
        agents = []
        for n in range(devices):
            agents.append(parts.device(folder / f"b{n}", f"t{n}"))
            stack.callback(agents[-1].kill)
        for agent in agents:
            _customise(agent, "desk")
        with Callers([a.address for a in agents], "desk", texts, callers) as asking:
            asking.measured(2.0)
            found["roles"] = asking.measured(seconds)

            def after(deed: Callable[[], None]) -> Figures:
                began = time.monotonic()
                deed()
                time.sleep(max(0.0, began + seconds - time.monotonic()))
                return asking.since(began)

            def database() -> None:
                server.stop()
                server.start()

            def balancer() -> None:
                parts.balancer.kill()
                parts.balancer.start()

            found["kills"] = {
                "a replica": after(lambda: _again(parts.replicas[0])),
                "the front": after(lambda: _upload_through(parts.front, agents[0])),
                "the balancer": after(balancer),
                "the database, restarted": after(database),
            }
            with _jobs(parts, bundle) as jobs:
                found["kills"]["a trainer"] = after(lambda: jobs.run("killed", jobs.kill))
                found["kills"]["a trainer, asleep"] = after(lambda: jobs.run("slept", jobs.sleep))
                jobs.run("undisturbed")
                agents[0].run("logs", "second")  # its upload was interrupted by the front's death
                found["jobs"] = jobs.effects()
    return found


def _enrolled(stack: ExitStack, cloud: Cloud, folder: Path, tenant: str) -> Agent:
    folder.mkdir()
    agent = Agent.at(folder, cloud=cloud.address, tenant=tenant, token=cloud.enroll(tenant))
    agent.run("pull", cloud.address)
    agent.start()
    stack.callback(agent.kill)
    return agent


def _examples(number: int) -> list[str]:
    """Text, tab, label."""
    return (_TEXTS / "train.tsv").read_text("utf-8").splitlines()[1 : number + 1]


def _customise(agent: Agent, name: str, *options: str) -> None:
    table = Path(agent.env["SOTTO_AGENT_STATE"]).with_name("examples.tsv")
    table.write_text("\n".join(["text\tlabel", *_examples(_EXAMPLES)]) + "\n", "utf-8")
    agent.run("customize", name, "--input", str(table), "--epochs", "1", "--json", *options)


def _again(role: Role) -> None:
    role.kill()
    role.start()


def _upload_through(front: Role, agent: Agent) -> None:
    """Kill the front while a device uploads."""
    _customise(agent, "second", "--no-watch")
    _again(front)


class _Jobs:
    """Jobs with the same examples, some of which are disturbed."""

    def __init__(self, parts: Roles, database: Database, bundle: Bundle) -> None:
        self._parts, self._database, self._bundle = parts, database, bundle
        self._jobs = Jobs(database, ServerLimits())
        self._made: dict[str, Job] = {}
        self._refused = 0

    def run(self, name: str, disturb: Callable[[Job], None] = lambda job: None) -> None:
        """Queue a job for adapter ``name``, disturb it after an epoch, and wait for its end."""
        release = Release("pct2t.v2", 10.0, "balanced", self._bundle.id, "content")
        options = TrainingOptions(epochs=_EPOCHS, batch_size=8, seed=7)
        lines = [line.split("\t") for line in _examples(_EXAMPLES)]
        rows = [Example(text, label) for text, label in lines]
        job = self._jobs.create(_TENANT, name, name, options, release)
        uploads = [Upload(f"e{n}", row) for n, row in enumerate(rows)]
        append(self._jobs, job.id, _TENANT, 0, uploads, self._bundle.manifest.words)
        self._made[name] = self._jobs.start(job.id, _TENANT, len(rows))
        _until(lambda: self._now(job).progress.epoch > 1 or self._now(job).state in FINAL)
        disturb(job)
        _until(lambda: self._now(job).state in FINAL)

    def _now(self, job: Job) -> Job:
        while True:
            try:
                return self._jobs.get(job.id)
            except Unavailable:
                time.sleep(0.1)

    def _holder(self, job: Job) -> tuple[Role, str]:
        """Return the job's trainer, by the newest log line about the job, and its lease owner."""
        holder = max(self._parts.trainers, key=lambda t: t.log.read_text().rfind(f"job {job.id}:"))
        return holder, self._owner(job)

    def _owner(self, job: Job) -> str:
        with self._database.read() as transaction:
            row = transaction.row("SELECT lease_owner FROM jobs WHERE id = :id", id=job.id)
        return str(row["lease_owner"]) if row else ""

    def kill(self, job: Job) -> None:
        """Kill the job's trainer with SIGKILL, and start another."""
        _again(self._holder(job)[0])

    def sleep(self, job: Job) -> None:
        """Suspend the job's trainer until another holds the lease and the first has noticed."""
        holder, owner = self._holder(job)
        assert holder.process is not None
        before = holder.log.read_text().count(LOST)
        os.kill(holder.process.pid, signal.SIGSTOP)
        try:
            _until(lambda: self._owner(job) != owner)
        finally:
            os.kill(holder.process.pid, signal.SIGCONT)
        _until(lambda: holder.log.read_text().count(LOST) > before)
        self._refused += 1

    def effects(self) -> Figures:
        """Count the jobs with each required effect."""
        with self._database.read() as transaction:
            ended = transaction.rows("SELECT * FROM jobs WHERE tenant = :t", t=_TENANT)
            devices = transaction.rows("SELECT * FROM jobs WHERE tenant <> :t", t=_TENANT)
            named = transaction.rows("SELECT job FROM adapters WHERE tenant = :t", t=_TENANT)
        bits = {name: self._bits(name) for name in self._made}
        return {
            "of_devices": len(devices),
            "of_devices_succeeded": sum(row["state"] == State.SUCCEEDED for row in devices),
            "compared": len(self._made),
            "succeeded": sum(row["state"] == State.SUCCEEDED for row in ended),
            "named": len({row["job"] for row in named} & {job.id for job in self._made.values()}),
            "claims": sum(row["fence"] for row in ended),
            "stale_trainers_refused": self._refused,
            "to_the_bit_as_undisturbed": sum(
                found == bits["undisturbed"] for found in bits.values()
            ),
        }

    def _bits(self, name: str) -> dict[str, dict[str, bytes]]:
        with locate(self._database, _TENANT, name).opened() as folder:
            return {
                file.name: {n: t.numpy().tobytes() for n, t in load_file(file).items()}
                for file in sorted(folder.glob("*.safetensors"))
            }


@contextmanager
def _jobs(parts: Roles, bundle: Path) -> Iterator[_Jobs]:
    database = open_database(parts.state, parts.store, parts.objects)
    try:
        Tenants(database).enroll(_TENANT)
        yield _Jobs(parts, database, Bundle.open(bundle))
    finally:
        database.close()


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("waited in vain")
        time.sleep(0.05)


def tables(found: Figures) -> list[Table]:
    """Return the tables of serving, kills and jobs."""
    rows = {"serve": found["serve"], "2 replicas": found["roles"]} | found["kills"]
    columns = [*found["serve"]]
    return [
        table(
            "calls of devices: alone, behind a balancer, and after each kill",
            ["what"],
            [column.replace("_", " ") for column in columns],
            [[what, *(figures[column] for column in columns)] for what, figures in rows.items()],
        ),
        table(
            "jobs",
            ["what"],
            ["count"],
            [[name.replace("_", " "), value] for name, value in found["jobs"].items()],
        ),
    ]
