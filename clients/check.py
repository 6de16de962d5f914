"""Builds the clients that the toolchains at hand allow, and asks each what the Python one is told.

`make clients`. A real daemon runs over the default bundle; who classifies is the tests' cloud, who
converses a server that echoes. A client must print the released texts and labels that the Python
client prints, and turn back what was said. What is missing is said, with what to install; the exit
code is 1 if one differs.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from clients.builds import (
    BUILT,
    CLIENTS,
    Failed,
    Missing,
    cpp,
    go,
    home_assistant,
    java,
    kotlin_chat,
    kotlin_sensor,
    node,
    node_tests,
    python,
    python_tests,
    run,
    swift,
)
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import connect
from sottovoce.edge.config import Config
from sottovoce.edge.http.endpoints import read_key
from sottovoce.edge.state.apps import OWNER, Apps
from sottovoce.edge.state.database import Store
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, labelled, running
from tests.support.paths import BUNDLE
from tests.support.stub_cloud import stub_cloud
from tests.support.upstream_server import openai_server

ADAPTER = "mail"
READINGS = "".join(
    f"{line}\n"
    for line in (
        "The doctor was in the clinic with Anna, 4711",
        "The river in the garden was cold",
        "Übermorgen sieht Zoë den See – 12 °C",
    )
)
SAID = "Anna sees Dr Okafor in the garden"


@dataclass(frozen=True)
class Device:
    """A running agent, how to reach it, and an app's token where it asks for one."""

    address: str
    endpoint: str
    key: str
    token: str = ""


def main() -> int:
    """Builds, asks, compares and says what came of it."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), BUNDLE) as device:
        try:
            wanted = asked([*python(), "sensor.py"], device, CLIENTS / "python")
        except Failed as failed:
            sys.exit(f"python      FAILED: {failed}")
        print(f"python      {len(wanted.splitlines())} readings:")
        print("".join(f"            {line}\n" for line in wanted.splitlines()), end="")
        held = [
            holds("chat", lambda: chatted(device), SAID),
            holds("http", lambda: spoken(device), SAID),
            holds("kotlin http", lambda: conversed(kotlin_chat(), device), f"{SAID}\n" * 2),
            holds("swift http", lambda: conversed(swift(), device), f"{SAID}\n" * 2),
        ]
        held += [
            passes("python's own tests", python_tests, device, BUILT / "python"),
            passes("node's own tests", node_tests, device, BUILT / "node"),
            passes("home assistant", home_assistant, device, BUILT / "home_assistant"),
        ]
        clients = {"node": node, "c++": cpp, "go": go}
        held += [
            holds(name, built_and_asked(make, device), wanted) for name, make in clients.items()
        ]
    # Debian's Netty has no unix sockets; and apps of another user's machine bring a token.
    loopback = {"SOTTO_AGENT_LISTEN": "127.0.0.1:0", "SOTTO_AGENT_APPS": "true"}
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), BUNDLE, **loopback) as device,
    ):
        print("with a token, over TCP:")
        wanted = asked([*python(), "sensor.py"], device, CLIENTS / "python")
        clients |= {"java": java, "kotlin": kotlin_sensor}
        held += [
            holds(name, built_and_asked(make, device), wanted) for name, make in clients.items()
        ]
    return int(not all(held))


def conversed(command: list[str], device: Device) -> str:
    """What a chat line over HTTP prints when told the same twice: names stay what they were."""
    return run(command, CLIENTS, f"{SAID}\n" * 2, endpoint_of(device))


def endpoint_of(device: Device) -> dict[str, str]:
    """What a client over HTTP is told, and a proxy that it must not ask: nobody is there."""
    return {
        "OPENAI_ADDRESS": device.endpoint,
        "KEY": device.key,
        "http_proxy": "http://127.0.0.1:9",
    }


def built_and_asked(make: Callable[[], list[str]], device: Device) -> Callable[[], str]:
    """What a client prints of the readings, once it is built."""
    return lambda: asked(make(), device, CLIENTS)


def passes(name: str, tests: Callable[[], list[str]], device: Device, where: Path) -> bool:
    """Whether a client's own tests pass, or cannot run here; prints which."""
    told = {"SOTTO_AGENT_LISTEN": device.address, **endpoint_of(device)}
    try:
        summary = summary_of(run(tests(), where, "", told))
    except Missing as missing:
        print(f"{name:20}skipped: {missing}")
        return True
    except Failed as failed:
        print(f"{name:20}FAILED: {failed}")
        return False
    print(f"{name:20}{summary}")
    return True


def summary_of(output: str) -> str:
    """Return the counts at the end of a test runner's output: pytest's line, or those of Node."""
    counts = dict(re.findall(r"^(?:#|ℹ) (pass|skipped) (\d+)$", output, re.MULTILINE))
    if counts:
        return f"{counts['pass']} passed, {counts['skipped']} skipped"
    return output.strip().splitlines()[-1]


def holds(name: str, ask: Callable[[], str], wanted: str) -> bool:
    """Whether a client prints what it should, or cannot be built here; says which."""
    try:
        told = ask()
    except Missing as missing:
        print(f"{name:12}skipped: {missing}")
        return True
    except Failed as failed:
        print(f"{name:12}FAILED: {failed}")
        return False
    same = told == wanted
    print(f"{name:12}{'the same' if same else f'FAILED: {told!r}'}")
    return same


@contextmanager
def started(
    folder: Path, bundle: Path, tagger: Tagger | None = None, **settings: str
) -> Iterator[Device]:
    """An agent with an adapter, an OpenAI endpoint and somebody to talk to."""
    with stub_cloud(bundle) as cloud, openai_server() as server:
        config = configured(
            folder,
            bundle=bundle,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CHAT_UPSTREAM=server.url,
            SOTTO_OPENAI_ADDRESS="127.0.0.1:0",
            **settings,
        )
        token = app_of(config) if config.agent.apps else ""
        with running(config, tagger) as address, connect(address, owner_of(config)) as device:
            settings = agent.CustomizationSettings(adapter=ADAPTER)
            examples = agent.LabelledTexts(examples=labelled())
            requests = (
                agent.CustomizeRequest(settings=settings),
                agent.CustomizeRequest(examples=examples),
            )
            queued = device.agent.Customize(iter(requests)).customization
            watched = agent.WatchCustomizationRequest(id=queued.id)
            *_, last = device.agent.WatchCustomization(watched)
            ended = last.customization
            assert ended.state == agent.CUSTOMIZATION_STATE_SUCCEEDED, ended.message
            endpoint = (
                f"http://{device.agent.GetStatus(agent.GetStatusRequest()).openai_address}/v1"
            )
            yield Device(address, endpoint, read_key(config.agent.state), token)


def app_of(config: Config) -> str:
    """The token of an app that the owner has let in."""
    with closing(Store.open(config.agent.state)) as store:
        return Apps(store).new("sensor")


def owner_of(config: Config) -> str:
    """The owner's token, where the agent asks for one."""
    return OWNER.read(config.agent.state) if config.agent.apps else ""


def asked(command: list[str], device: Device, where: Path) -> str:
    """What a client prints of the readings."""
    environment = {"SOTTO_APP_TOKEN": device.token}
    return run([*command, device.address, ADAPTER], where, READINGS, environment)


def chatted(device: Device) -> str:
    """What the Python chat line prints."""
    return run([*python(), "chat.py", device.address], CLIENTS / "python", f"{SAID}\n").strip()


def spoken(device: Device) -> str:
    """What the conversation agent over HTTP prints."""
    command = [sys.executable, "conversation_agent.py", "kitchen", SAID]
    return run(command, CLIENTS / "http", "", endpoint_of(device)).strip()


if __name__ == "__main__":
    sys.exit(main())
