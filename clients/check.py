"""Builds the clients that the toolchains at hand allow, and asks each what the Python one is told.

`make clients`. A real daemon runs over the default bundle; who classifies is the tests' cloud, who
converses a server that echoes. A client must print the released texts and labels that the Python
client prints, and turn back what was said. What is missing is said, with what to install; the exit
code is 1 if one differs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import Remote
from sottovoce.edge.config import Config
from sottovoce.edge.daemon.doorway.gate import read_key
from sottovoce.edge.state.apps import Apps
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.own_secret import OWNER
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, labelled, running
from tests.support.fake_cloud import fake_cloud
from tests.support.paths import BUNDLE, ROOT
from tests.support.upstream_server import openai_server

CLIENTS = ROOT / "clients"
BUILT = ROOT / "build" / "clients"
PROTOS = ROOT / "protos"
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


class Missing(Exception):
    """A toolchain is not here; says what to install."""


class Failed(Exception):
    """A program failed or hung; says which, and what it printed."""


@dataclass(frozen=True)
class Device:
    """A running agent, how to reach it, and an app's token where it asks for one."""

    address: str
    doorway: str
    key: str
    token: str = ""


def main() -> int:
    """Builds, asks, compares and says what came of it."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), BUNDLE) as device:
        try:
            wanted = asked([*python(), "sensor.py"], device, CLIENTS / "python")
        except Failed as failed:
            sys.exit(f"python    FAILED: {failed}")
        print(f"python    {len(wanted.splitlines())} readings:")
        print("".join(f"          {line}\n" for line in wanted.splitlines()), end="")
        held = [
            holds("chat", lambda: chatted(device), SAID),
            holds("http", lambda: spoken(device), SAID),
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
        clients["java"] = java
        held += [
            holds(name, built_and_asked(make, device), wanted) for name, make in clients.items()
        ]
    print(f"{'swift':10}skipped: no toolchain in Debian; clients/README.md says how")
    return int(not all(held))


def built_and_asked(make: Callable[[], list[str]], device: Device) -> Callable[[], str]:
    """What a client prints of the readings, once it is built."""
    return lambda: asked(make(), device, CLIENTS)


def holds(name: str, ask: Callable[[], str], wanted: str) -> bool:
    """Whether a client prints what it should, or cannot be built here; says which."""
    try:
        told = ask()
    except Missing as missing:
        print(f"{name:10}skipped: {missing}")
        return True
    except Failed as failed:
        print(f"{name:10}FAILED: {failed}")
        return False
    same = told == wanted
    print(f"{name:10}{'the same' if same else f'FAILED: {told!r}'}")
    return same


@contextmanager
def started(
    folder: Path, bundle: Path, tagger: Tagger | None = None, **settings: str
) -> Iterator[Device]:
    """An agent with an adapter, a doorway and somebody to talk to."""
    with fake_cloud(bundle) as cloud, openai_server() as server:
        config = configured(
            folder,
            bundle=bundle,
            SOTTO_CLOUD_ADDRESS=cloud.address,
            SOTTO_CHAT_UPSTREAM=server.url,
            SOTTO_DOORWAY_ADDRESS="127.0.0.1:0",
            **settings,
        )
        token = app_of(config) if config.agent.apps else ""
        with running(config, tagger) as address, Remote(address, owner_of(config)) as device:
            settings = agent.CustomizationSettings(adapter=ADAPTER)
            examples = agent.LabelledTexts(examples=labelled())
            record = device.customize(
                [
                    agent.CustomizeRequest(settings=settings),
                    agent.CustomizeRequest(examples=examples),
                ]
            )
            *_, ended = device.watch(record.id)
            assert ended.state == agent.CUSTOMIZATION_STATE_SUCCEEDED, ended.message
            doorway = f"http://{device.status().doorway}/v1"
            yield Device(address, doorway, read_key(config.agent.state), token)


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
    environment = {"DOORWAY": device.doorway, "KEY": device.key}
    command = [sys.executable, "conversation_agent.py", "kitchen", SAID]
    return run(command, CLIENTS / "http", "", environment).strip()


def python() -> list[str]:
    """An environment of its own: gRPC, protobuf, the stubs, and nothing of ours beside."""
    folder = BUILT / "venv"
    program = str(folder / "bin" / "python")
    done = folder / "done"
    if not newer(done, PROTOS, CLIENTS / "python"):
        run([sys.executable, "-m", "venv", str(folder)], ROOT)
        protos = BUILT / "protos"  # copies: what is built would lie among the sources
        shutil.copytree(PROTOS, protos, dirs_exist_ok=True)
        parts = [str(protos), str(copied("python"))]
        run([program, "-m", "pip", "install", "-q", "-c", "constraints.txt", *parts], ROOT)
        done.touch()
    return [program]


def newer(done: Path, *folders: Path) -> bool:
    """Whether a file was touched after all of the Python sources in the folders."""
    sources = (
        each for folder in folders for kind in ("py", "toml") for each in folder.rglob(f"*.{kind}")
    )
    return done.exists() and done.stat().st_mtime >= max(each.stat().st_mtime for each in sources)


def node() -> list[str]:
    """Protos are read when it starts."""
    found(("node", "npm"), "Node.js 18 (Debian: nodejs npm)")
    folder = copied("node")
    run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    return ["node", str(folder / "sensor.js")]


def cpp() -> list[str]:
    """One file, against the system's gRPC."""
    wanted = "Debian's g++ pkg-config libgrpc++-dev protobuf-compiler-grpc"
    found(("g++", "pkg-config", "protoc", "grpc_cpp_plugin"), wanted)
    if subprocess.run(["pkg-config", "--exists", "grpc++"], check=False).returncode:
        raise Missing(f"install {wanted}")
    folder, plugin = copied("cpp"), shutil.which("grpc_cpp_plugin")
    generate(f"--cpp_out={folder}", f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={plugin}")
    stubs = ("training.pb", "edge_agent.pb", "edge_agent.grpc.pb")  # the others take minutes
    sources = [f"sottovoce/v1/{name}.cc" for name in stubs]
    flags = run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], folder).split()
    run(["g++", "-std=c++17", "-I.", "-o", "sensor", "sensor.cc", *sources, *flags], folder)
    return [str(folder / "sensor")]


def go() -> list[str]:
    """Against Debian's modules, without the network."""
    wanted = (
        "Debian's golang-go golang-google-grpc-dev golang-google-protobuf-dev protoc-gen-go-1-5 "
        "protoc-gen-go-grpc"
    )
    found(("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"), wanted)
    packages = Path("/usr/share/gocode")
    if not (packages / "src" / "google.golang.org" / "grpc").exists():
        raise Missing(f"install {wanted}")
    folder = copied("go", "gopath/src/sottovoce")
    generate(f"--go_out={folder.parent}", f"--go-grpc_out={folder.parent}")
    paths = f"{folder.parents[1]}:{packages}"
    environment = {"GO111MODULE": "off", "GOPATH": paths, "GOCACHE": str(BUILT / "go-cache")}
    run(
        ["go", "build", "-o", str(BUILT / "go" / "sensor"), "sottovoce/sensor"],
        folder,
        "",
        environment,
    )
    return [str(BUILT / "go" / "sensor")]


def java() -> list[str]:
    """Against Debian's jars; only what the sensor needs is compiled."""
    wanted = (
        "Debian's openjdk-17-jdk-headless libgrpc-java libnetty-java libprotobuf-java "
        "libgeronimo-annotation-1.3-spec-java libprotobuf-dev protobuf-compiler-grpc-java-plugin"
    )
    found(("java", "javac", "protoc", "grpc_java_plugin"), wanted)
    parts = ("grpc-api", "grpc-netty", "netty-transport-native-epoll", "protobuf", "guava")
    jars = Path("/usr/share/java")
    if not all((jars / f"{part}.jar").exists() for part in parts):
        raise Missing(f"install {wanted}")
    folder, plugin = copied("java"), shutil.which("grpc_java_plugin")
    generate(
        f"--java_out={folder}",
        f"--grpc-java_out={folder}",
        f"--plugin=protoc-gen-grpc-java={plugin}",
    )
    path = ":".join(
        str(jar)
        for kind in (
            "grpc-*",
            "netty-*",
            "protobuf",
            "guava",
            "opencensus-*",
            "geronimo-annotation*",
        )
        for jar in sorted(jars.glob(f"{kind}.jar"))
    )
    sources = ["Sensor.java", "debian/io/perfmark/PerfMark.java"]  # which Debian's gRPC lacks
    run(["javac", "-sourcepath", ".:debian", "-d", "built", "-cp", path, *sources], folder)
    return ["java", "-cp", f"{folder / 'built'}:{path}", "Sensor"]


def generate(*outputs: str) -> None:
    """Stubs of all protos."""
    files = [
        str(path.relative_to(PROTOS))
        for path in sorted((PROTOS / "sottovoce" / "v1").glob("*.proto"))
    ]
    run(["protoc", f"-I{PROTOS}", *outputs, *files], PROTOS)


def copied(name: str, place: str = "") -> Path:
    """A client's sources, where it is built."""
    folder = BUILT / name / place
    shutil.copytree(CLIENTS / name, folder, dirs_exist_ok=True)
    return folder


def found(programs: tuple[str, ...], wanted: str) -> None:
    """
    Raises:
        Missing: one of them is not on the PATH.
    """
    if not all(map(shutil.which, programs)):
        raise Missing(f"install {wanted}")


def run(
    command: list[str], where: Path, typed: str = "", environment: dict[str, str] | None = None
) -> str:
    """What a program prints; it sees the protos, and no proxy.

    Raises:
        Failed: it did.
    """
    told = {**os.environ, "SOTTOVOCE_PROTOS": str(PROTOS), **(environment or {})}
    told.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command,
            cwd=where,
            input=typed,
            env=told,
            text=True,
            capture_output=True,
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(str(late)) from late
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
