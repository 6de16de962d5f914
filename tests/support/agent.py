"""Agents for tests: settings in a temporary folder, the tasks, and a daemon on a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge import server
from sottovoce.edge.config import Config, load
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks.customize import Customizer, Defaults
from sottovoce.edge.tasks.engine import Engine
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_agent_pb2, training_pb2
from tests.support.waiting import until

TOKEN = "correct horse"  # noqa: S105 - of a server that lives for one test


def configured(folder: Path, *, bundle: Path | None = None, **environ: str) -> Config:
    """Settings under `folder`, with `bundle` linked as the current one."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    token = folder / "token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(f"{TOKEN}\n")
    places = {
        "HOME": str(home),
        "SOTTO_AGENT_LISTEN": f"unix:{folder / 'agent.sock'}",
        "SOTTO_CLOUD_TENANT": "t",
        "SOTTO_PRIVACY_LARGEST_ETA": "20000",  # of the small bundle's lightest level
        "SOTTO_CLOUD_TOKEN_FILE": str(token),
    }
    config = load(environ=places | environ)
    if bundle is not None:
        config.bundle.path.mkdir(parents=True, exist_ok=True)
        config.bundle.current.symlink_to(bundle)
    return config


def engine(config: Config, tagger: Tagger) -> Engine:
    """The engine over the linked bundle with a tagger that the bundle does not hold."""
    return Engine(config.bundle, config.privacy, lambda _: tagger, "test")


@contextmanager
def opened(config: Config, tagger: Tagger | None) -> Iterator[Parts]:
    """Open the parts of an agent. The default tagger is the bundle's."""
    device = Parts(config, engine(config, tagger) if tagger is not None else None)
    try:
        yield device
    finally:
        device.close()


@contextmanager
def running(config: Config, tagger: Tagger | None = None) -> Iterator[str]:
    """Run a daemon on a thread; yield its address."""
    ready, stop = threading.Event(), threading.Event()
    addresses: list[str] = []
    failed: list[BaseException] = []

    def listen(address: str) -> None:
        addresses.append(address)
        ready.set()

    def run() -> None:
        try:
            custom = engine(config, tagger) if tagger is not None else None
            server.serve(config, engine=custom, ready=listen, stop=stop)
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield addresses[0]
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
        assert failed == []


@contextmanager
def customizing(
    folder: Path, bundle: Path, tagger: Tagger, **environ: str
) -> Iterator[tuple[Customizer, Parts]]:
    """What takes labelled texts in, and the agent it does so for."""
    with opened(configured(folder, bundle=bundle, **environ), tagger) as device:
        defaults = Defaults(device.default, 3)
        yield (
            Customizer(
                device.engine, device.store, device.ledger, device.releases, device.outbox, defaults
            ),
            device,
        )


def labelled(number: int = 20) -> list[edge_agent_pb2.LabelledText]:
    """Return sentences of two kinds in turn, each with a different name."""
    return [
        edge_agent_pb2.LabelledText(
            text=f"The {('river', 'doctor')[n % 2]} was in the garden, Anna{n}",
            label=("outside", "clinic")[n % 2],
        )
        for n in range(number)
    ]


def customizer(device: Parts) -> Customizer:
    """What takes the device's customisations, with one plain token a text."""
    return Customizer(
        device.engine,
        device.store,
        device.ledger,
        device.releases,
        device.outbox,
        Defaults(device.default, 1),
    )


def wanted(adapter: str = "desk", **settings: Any) -> edge_agent_pb2.CustomizationSettings:
    """Return the settings of a customisation, training settings included."""
    fields = training_pb2.TrainingSettings.DESCRIPTOR.fields_by_name
    trained = {name: settings.pop(name) for name in [*settings] if name in fields}
    training = training_pb2.TrainingSettings(**trained) if trained else None
    return edge_agent_pb2.CustomizationSettings(adapter=adapter, training=training, **settings)


def teach(
    device: Parts, name: str, pairs: tuple[tuple[str, str], ...], **settings: Any
) -> edge_agent_pb2.Customization:
    """Has the cloud train an adapter on five examples of each (text, label); gives its record,
    which has ended."""
    if not settings.get("add"):
        settings["privacy"] = edge_agent_pb2.PrivacyOptions(level="light")
    asked = wanted(name, **settings)
    examples = [edge_agent_pb2.LabelledText(text=text, label=label) for text, label in pairs]
    record = customizer(device).accept(asked, [each for each in examples for _ in range(5)])
    Uploader(device.cloud, device.outbox).carry(record.id)
    until(lambda: device.outbox.get(record.id).state in ENDED)
    return device.outbox.get(record.id)


def queued(device: Parts, identity: str) -> list[training_pb2.PrivatizedExample]:
    """What waits to be sent for a customisation."""
    return [e for batch in device.outbox.batches(identity, 0) for e in batch.examples]
