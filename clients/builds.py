"""How each client is built, with the toolchains at hand: what is run comes out.

What is generated or compiled stays in `build/clients`; sources are copied there first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

CLIENTS = ROOT / "clients"
BUILT = ROOT / "build" / "clients"
PROTOS = ROOT / "protos"


class Missing(Exception):
    """A toolchain is not here; says what to install."""


class Failed(Exception):
    """A program failed or hung; says which, and what it printed."""


def python() -> list[str]:
    """A clean environment with the client, installed by the command of its README."""
    folder = BUILT / "venv"
    program = str(folder / "bin" / "python")
    done = folder / "done"
    if not newer(done, CLIENTS / "python"):
        run([sys.executable, "-m", "venv", "--clear", str(folder)], ROOT)
        run([program, "-m", "pip", "install", "-q", "."], copied("python"))
        done.touch()
    return [program, "-P"]  # not the sources beside a script, but what was installed


def newer(done: Path, *folders: Path) -> bool:
    """Whether a file was touched after all of the Python sources in the folders."""
    sources = (
        each for folder in folders for kind in ("py", "toml") for each in folder.rglob(f"*.{kind}")
    )
    sources = [*(each for each in folders if each.is_file()), *sources]
    return done.exists() and done.stat().st_mtime >= max(each.stat().st_mtime for each in sources)


def node() -> list[str]:
    """The client in its folder, with the packages that it needs."""
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


def kotlin_sensor() -> list[str]:
    """Over the client in Java."""
    _, _, path, _ = java()
    return ["java", "-cp", f"{kotlin('Sensor.kt', path=path)}:{path}", "SensorKt"]


def kotlin_chat() -> list[str]:
    """Over HTTP; JSON is read by what Android has."""
    path = "/usr/share/java/com.android.json.jar"
    jar = kotlin("Chat.kt", "sottovoce/OpenAIEndpoint.kt", path=path)
    return ["java", "-cp", f"{jar}:{path}", "ChatKt"]


def kotlin(*sources: str, path: str) -> Path:
    """A jar of some of the Kotlin sources, over the jars of a class path."""
    wanted = "Debian's kotlin libandroid-json-java"
    found(("kotlinc", "java"), wanted)
    if not all(map(os.path.exists, path.split(":"))):
        raise Missing(f"install {wanted}")
    folder = copied("kotlin")
    jar = folder / f"{Path(sources[0]).stem}.jar"
    run(["kotlinc", "-include-runtime", "-cp", path, "-d", str(jar), *sources], folder)
    return jar


def swift() -> list[str]:
    """Over HTTP; where this system has no Swift, in a Debian that has it."""
    root = BUILT / "trixie"
    folder = copied("swift")
    inside, where = [str(folder / "trixie.sh"), "run", str(root), str(folder)], Path("/mnt")
    if shutil.which("swiftc"):
        inside, where = [], folder
    elif not (root / "usr" / "bin" / "swiftc").exists():
        raise Missing(
            f"install Debian 13's swiftlang, or as root: clients/swift/trixie.sh make {root}"
        )
    sources = [str(where / name) for name in ("Chat.swift", "OpenAIEndpoint.swift")]
    run([*inside, "swiftc", "-o", str(where / "chat"), *sources], folder)
    return [*inside, str(where / "chat")]


HOME_ASSISTANT = "pytest-homeassistant-custom-component==0.13.236"
"""Home Assistant 2025.4.4 with its test plugin: the newest that Python 3.13.0 admits."""


def home_assistant() -> list[str]:
    """The tests of the integration, in an environment with Home Assistant."""
    pyenv = Path.home().glob(".pyenv/versions/3.13.*/bin/python3.13")
    programs = [str(each) for each in (shutil.which("python3.13"), *pyenv) if each]
    python = next(filter(_starts, programs), None)
    if python is None:
        raise Missing("install Python 3.13 (Debian 13: python3 python3-venv)")
    folder = BUILT / "venv-home-assistant"
    program, done = str(folder / "bin" / "python"), folder / "done"
    if not newer(done, CLIENTS / "builds.py"):
        run([python, "-m", "venv", "--clear", str(folder)], ROOT)
        run([program, "-m", "pip", "install", "-q", HOME_ASSISTANT], ROOT, seconds=1800)
        done.touch()
    return [program, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copied("home_assistant"))]


def _starts(program: str) -> bool:
    """Whether an interpreter runs: pyenv's shim exists for versions that are not chosen."""
    return not subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode


def python_tests() -> list[str]:
    """The tests of the Python package, against the installed client."""
    program = python()[0]
    if subprocess.run(
        [program, "-c", "import pytest"], capture_output=True, check=False
    ).returncode:
        run([program, "-m", "pip", "install", "-q", "pytest"], ROOT)
    return [program, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def node_tests() -> list[str]:
    """The tests of the Node package."""
    node()
    return ["npm", "test", "--silent"]


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
    command: list[str],
    where: Path,
    typed: str = "",
    environment: dict[str, str] | None = None,
    seconds: float = 600,
) -> str:
    """What a program prints.

    Raises:
        Failed: the program failed or hung.
    """
    told = {**os.environ, **(environment or {})}
    told.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command,
            cwd=where,
            input=typed,
            env=told,
            text=True,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(str(late)) from late
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
