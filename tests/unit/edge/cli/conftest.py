"""A device for commands: its own home, and the small bundle with the shipped tagger in it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import StoredFile, sha256
from sottovoce.core.privacy import inspection
from sottovoce.edge.cli import main
from sottovoce.edge.config import Config, load
from tests.support.agent import configured
from tests.support.paths import MODELS
from tests.support.stub_cloud import StubCloud, stub_cloud

SHIPPED_TAGGER = MODELS / "tagger"


@pytest.fixture(scope="session")
def tagged_bundle(small_bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small bundle with a real tagger; not to be changed."""
    folder = tmp_path_factory.mktemp("bundles") / "tagged"
    shutil.copytree(small_bundle_folder, folder)
    (folder / "tagger").mkdir()
    manifest = Bundle.open(small_bundle_folder).manifest
    files = dict(manifest.files)
    for name in ("tagger.onnx", "tagger.json"):
        target = folder / "tagger" / name
        shutil.copy(SHIPPED_TAGGER / name, target)
        files[f"tagger/{name}"] = StoredFile(target.stat().st_size, sha256(target))
    manifest = dataclasses.replace(manifest, files=files)
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return folder


@dataclass
class Device:
    """A device's folder and its environment; `sotto` runs a command on it."""

    folder: Path
    environment: dict[str, str]

    @property
    def config(self) -> Config:
        return load(environ=self.environment)

    def sotto(self, *arguments: str, stdin: bytes | str = b"", code: int = 0) -> Result:
        result = CliRunner().invoke(
            main, list(arguments), input=stdin, env=self.environment, catch_exceptions=False
        )
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, stdin: bytes | str = b"", code: int = 0) -> list[Any]:
        """The objects a command prints with --json."""
        result = self.sotto(*arguments, "--json", stdin=stdin, code=code)
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def new_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Device]:
    """Makes the device; settings as environment variables."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)

    def make(bundle: Path | None = None, **environ: str) -> Device:
        configured(tmp_path, bundle=bundle)
        environment = {
            "HOME": str(tmp_path / "home"),
            "SOTTO_AGENT_LISTEN": f"unix:{tmp_path / 'agent.sock'}",
            "SOTTO_CLOUD_TENANT": "t",
            "SOTTO_PRIVACY_LARGEST_ETA": "20000",  # of the small bundle's lightest level
            "SOTTO_CLOUD_TOKEN_FILE": str(tmp_path / "token"),
        }
        return Device(tmp_path, environment | environ)

    return make


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels of the small bundle are made up, and its classes are small."""
    if "bundle_folder" not in request.fixturenames:
        monkeypatch.setattr(inspection, "inspect", lambda *_, **__: ())


@pytest.fixture
def device(new_device: Callable[..., Device], tagged_bundle: Path) -> Device:
    """A device with a bundle and no cloud."""
    return new_device(tagged_bundle)


@pytest.fixture
def cloud(tagged_bundle: Path) -> Iterator[StubCloud]:
    """A stub cloud that has the bundle."""
    with stub_cloud(tagged_bundle) as server:
        yield server


@pytest.fixture
def linked(new_device: Callable[..., Device], tagged_bundle: Path, cloud: StubCloud) -> Device:
    """A device with bundle and cloud."""
    return new_device(tagged_bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
