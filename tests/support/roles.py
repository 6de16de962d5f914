"""A cloud of many processes on this machine: replicas, a front and trainers behind HAProxy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.live.testbed import Agent, Role, command, free_address
from sottovoce.cloud.config import STORE_VARIABLE
from tests.support import haproxy
from tests.support.haproxy import Balancer

__all__ = ["Roles", "roles"]

_MANY = ("--peer-calls=100000", "--peer-connections=1000", "--peer-streams=1000")
"""Limits for one client address, because all devices share one address here."""


@dataclass
class Roles:
    """The running processes; a trainer's name is its place in the list."""

    address: str
    state: Path
    store: str
    objects: str
    balancer: Balancer
    replicas: list[Role]
    front: Role
    trainers: list[Role]

    def device(self, folder: Path, tenant: str, **env: str) -> Agent:
        """Start a tenant's agent and pull its bundle by the balancer; ``env`` adds settings."""
        folder.mkdir()
        token = folder / "token"
        enroll = [command("sotto-cloud"), "enroll", tenant, "--state", str(self.state)]
        subprocess.run(
            [*enroll, "--token-file", str(token)],
            env={**os.environ, STORE_VARIABLE: self.store},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        agent = Agent.at(folder, cloud=self.address, tenant=tenant, token=token)
        agent.env.update(env)
        agent.run("pull", self.address)
        agent.start()
        return agent


@contextmanager
def roles(
    folder: Path,
    bundle: Path,
    store: str = "",
    replicas: int = 2,
    trainers: int = 2,
    objects: str = "",
    trace: str = "",
    backbone: str = "default",
) -> Iterator[Roles]:
    """Run all roles while the block lasts; all are ready when it begins.

    Args:
        folder: local folder for state and logs.
        bundle: the bundle that all roles serve.
        store: URL of the database; "" for a file in the folder.
        replicas: number of replicas.
        trainers: number of trainers.
        objects: URL of the store for adapters and checkpoints; "" for the folder.
        trace: address of the collector for spans; "" for none.
        backbone: backbone of the bundle.

    Raises:
        SystemExit: HAProxy is missing.
    """
    program = haproxy.found()
    if program is None:
        raise SystemExit(haproxy.HINT)
    state, served = ("--state", str(folder / "cloud")), ("--bundle", str(bundle))
    env = {STORE_VARIABLE: store, "SOTTO_CLOUD_OBJECTS": objects, "SOTTO_CLOUD_TRACE": trace}

    def made(kind: str, name: str, *more: str, calls: bool = True) -> Role:
        address = free_address() if calls else ""
        listen = ("--listen", address) if calls else ()
        return Role(address, folder / f"{name}.log", None, (kind, *listen, *state, *more), env)

    address = free_address()
    model = ("--backbone", backbone, "--threads", "1")
    behind = [made("replica", f"replica{n}", *served, *model) for n in range(replicas)]
    front = made("front", "front", *served)
    training = [made("trainer", f"trainer{n}", *model, calls=False) for n in range(trainers)]
    running = [*behind, front, *training]
    try:
        with ThreadPoolExecutor() as pool:  # each loads for seconds
            list(pool.map(Role.start, running))
        options = ["--listen", address, "--front", front.address, *_MANY]
        options += [part for each in behind for part in ("--replica", each.address)]
        printed = subprocess.check_output(
            [command("sotto-cloud"), "balancer-config", *options], text=True
        )
        with haproxy.running(program, printed, address) as balancer:
            yield Roles(
                address, folder / "cloud", store, objects, balancer, behind, front, training
            )
    finally:
        for role in running:
            role.kill()
