"""The parts of the campaign: each sets up its target, runs trials and counts the results."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from soak.campaign import beside, clocks, daemons, disks, kills, threads
from soak.campaign.anywhere import anywhere
from soak.campaign.damage import damage, device
from soak.campaign.errands import LEARNER
from soak.campaign.faulty_line import FaultyLine
from soak.campaign.full_disks import full_disks
from soak.campaign.machine import machine
from soak.campaign.moments import Death
from soak.campaign.network import World, network
from soak.campaign.soak import soak
from soak.campaign.tally import Tally
from soak.campaign.tenants import apart, settled, tenants
from soak.campaign.wire import CLOUD, DEVICE, wire
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from tests.support.caller import credentials
from tests.support.encoder_bundle import copied_with_encoder, with_encoder
from tests.support.full_disk import in_memory, no_mounts
from tests.support.paths import BUNDLE
from tests.support.small_bundle import write_small_bundle

_Run = Callable[[Path, Tally, str, Iterable[int]], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of trials.

    Attributes:
        what: description of the trials.
        run: runs the given trials in an empty folder.
        full, short: number of trials in the whole campaign and among the tests; 0 excludes it
            from the tests.
        minutes: duration in the whole campaign, for parts without a number of trials.
        missing: the machine's missing requirement; empty if none.
        pieces: maximum number of pieces; each trial is judged by itself.
        alone: whether it must run alone, because it measures time.
    """

    what: str
    run: _Run
    full: int
    short: int
    missing: Callable[[], str] = lambda: ""
    minutes: float = 0
    pieces: int = 1
    alone: bool = False


def run(name: str, folder: Path, seed: str, trials: Iterable[int]) -> Tally:
    """Return the tally of these trials of a part.

    An exception in the part becomes a finding. So earlier counts survive, and an exception that
    cannot be pickled does not stop the other parts.
    """
    part = PARTS[name]
    tally = Tally(part.what, f"python -m soak.campaign {name} --seed {seed} --trial {{}}")
    begun = 0

    def numbers() -> Iterator[int]:
        nonlocal begun
        for trial in trials:
            begun = trial
            yield trial

    try:
        part.run(folder, tally, seed, numbers())
    except Exception:  # any exception becomes a finding
        said = " ".join(traceback.format_exc().split())
        tally.fault("unexplained", begun, f"the part ended of itself: ...{said[-600:]}")
    return tally


def _on(
    opened: Callable[[Path], AbstractContextManager[T]],
    attack: Callable[[T, Tally, str, Iterable[int]], None],
) -> _Run:
    """Return a run of trials against what ``opened`` sets up in the folder."""

    def run(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
        with opened(folder) as target:
            attack(target, tally, seed, trials)

    return run


def _device(folder: Path) -> AbstractContextManager[daemons.Daemon]:
    return daemons.device(folder, BUNDLE)


def _bert(folder: Path) -> Path:
    from tests.support.backbones import tiny_bert  # imports torch, which few parts need

    return tiny_bert(folder / "bert")


def _tiny(folder: Path) -> tuple[Path, Path]:
    from tests.support.tiny_bundle import tiny_bundle  # which does, too

    bert = _bert(folder)
    return bert, tiny_bundle(folder / "bundle", bert)


def _damage(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    write_small_bundle(folder / "small")
    (folder / "worlds").mkdir()
    damage(device(folder / "small"), folder / "worlds", tally, seed, trials)


def _damage_cloud(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    from soak.campaign.damaged_cloud import cloud  # which imports torch

    damage(cloud(), folder, tally, seed, trials)


def _to_cloud(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    bert, bundle = _tiny(folder)
    database = SqliteDatabase(folder / "state")
    tenant = credentials("acme", Tenants(database).enroll("acme"))
    database.close()
    with daemons.cloud(folder, str(bert), bundle) as daemon:
        wire(CLOUD, daemon, tally, seed, trials, tenant)


def _tenants(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    bert, bundle = _tiny(folder)
    town = settled(folder / "state", str(bert), bundle)
    with apart() as processors, daemons.cloud(folder, str(bert), bundle) as daemon:
        tenants(daemon, town, tally, seed, trials, processors)


def _worker_killed(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    kills.worker_killed(folder, str(_bert(folder)), tally, seed, trials)


def _agent_without_power(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    with (
        disks.small_disk(folder) as disk,
        daemons.device(folder, BUNDLE, SOTTO_AGENT_STATE=str(disk.folder / "state")) as daemon,
    ):
        kills.agent_killed(daemon, tally, seed, trials, disk)


def _worker_without_power(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    bert = str(_bert(folder))
    with disks.small_disk(folder) as disk:
        kills.worker_killed(folder, bert, tally, seed, trials, disk)


@contextmanager
def _world(
    folder: Path, environs: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> Iterator[World]:
    """Run a device, a line and a cloud that trains, predicts and writes.

    Each side may get extra environment variables.
    """
    from tests.support import decoders  # which imports torch

    database = SqliteDatabase(folder / "cloud" / "state")
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(f"{Tenants(database).enroll('acme')}\n")
    database.close()
    decoder = str(decoders.save(folder / "decoder"))
    options = {"decoder": decoder, "hand_out_adapters": "acme"}
    (folder / "device").mkdir(exist_ok=True)
    bundle = copied_with_encoder(BUNDLE, folder / "bundle")
    with (
        daemons.cloud(
            folder / "cloud", "default", bundle, environs.get("cloud", {}), **options
        ) as provider,
        closing(FaultyLine(provider.address)) as line,
        daemons.device(
            folder / "device",
            bundle,
            SOTTO_CLOUD_ADDRESS=line.address,
            SOTTO_CLOUD_TENANT="acme",
            SOTTO_CLOUD_TOKEN_FILE=str(token),
            **environs.get("device", {}),
        ) as owners,
        closing(World(owners, line, provider)) as world,
    ):
        yield world


def _clocks(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    sides = {name: clocks.Clock(folder / f"{name}.clock") for name in ("device", "cloud")}
    with _world(folder, {name: clock.environ for name, clock in sides.items()}) as world:
        clocks.clocks(world, sides, tally, seed, trials)


def _anywhere(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    file = folder / "death"
    death = Death(file)
    environs = {name: death.environment(name) for name in ("device", "cloud")}
    with _world(folder, environs) as world:
        bundles = world.device.folder / LEARNER / "bundles"
        bundles.mkdir(parents=True)
        with_encoder(bundles / "small", _bert(folder))
        (bundles / "current").symlink_to(bundles / "small")
        world.environ = death.environment("command")
        anywhere(world, death, file, tally, seed, trials)


def _full_disks(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    with (
        in_memory(folder / "device" / "state", 32) as devices,
        in_memory(folder / "cloud" / "state", 128) as clouds,
        _world(folder) as world,
    ):
        full_disks(world, {"device": devices, "cloud": clouds}, tally, seed, trials)


PARTS: Final = {
    "network": Part("errands over a line that fails", _on(_world, network), 1_000, 1, pieces=4),
    "machine": Part("commands in want of something", machine, 400, 4, pieces=2),
    "full-disks": Part("errands on disks that fill", _full_disks, 200, 0, no_mounts, pieces=2),
    "damage": Part("damaged files of the device", _damage, 1_500, 150),
    "damage-cloud": Part("damaged files of the cloud", _damage_cloud, 500, 6, pieces=2),
    "wire-device": Part(
        "messages to the device's daemon", _on(_device, partial(wire, DEVICE)), 50_000, 1_200
    ),
    "wire-cloud": Part("messages to the cloud", _to_cloud, 50_000, 600),
    "tenants": Part("days of one tenant against four", _tenants, 100, 1, alone=True),
    "kill-agent": Part("kills of the device's daemon", _on(_device, kills.agent_killed), 100, 3),
    "kill-beside": Part(
        "kills beside pages and commands", _on(beside.running, beside.beside), 100, 1, pieces=2
    ),
    "kill-worker": Part("jobs whose worker was killed", _worker_killed, 100, 2, pieces=2),
    "kill-anywhere": Part("kills on both sides", _anywhere, 200, 0, pieces=2),
    "power-agent": Part("power cuts of the device", _agent_without_power, 100, 3, disks.needed),
    "power-worker": Part("power cuts of the worker", _worker_without_power, 50, 2, disks.needed),
    "threads": Part(
        "too few threads for the device", _on(_device, threads.threads), 100, 4, threads.needed
    ),
    "clocks": Part("errands while clocks jump", _clocks, 96, 0, clocks.needed, pieces=2),
    "soak": Part("rounds of mixed use", _on(_world, soak), 0, 0, minutes=60),
}
