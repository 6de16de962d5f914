"""A real agent and a real cloud as processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertConfig, BertModel

from bench.live.testbed import Agent, Cloud
from sottovoce.core.bundle.backbone import BackboneFiles, resolve
from sottovoce.core.bundle.folder import ENCODER
from sottovoce.core.bundle.manifest import MANIFEST, Backbone, Manifest
from sottovoce.models import encoder as device_encoder
from tests.support import haproxy
from tests.support.encoder_bundle import offered
from tests.support.paths import HELPDESK

behind_haproxy = pytest.mark.skipif(haproxy.found() is None, reason=haproxy.HINT)


@dataclass(frozen=True)
class Light:
    """A small backbone that reads the default one's tokens, and the real bundle over it."""

    backbone: Path
    bundle: Path

    def cloud(self, folder: Path, *options: str) -> Cloud:
        """A cloud with it, not started yet."""
        return Cloud.at(folder, self.bundle, "--backbone", str(self.backbone), *options)

    @contextmanager
    def running(self, folder: Path) -> Iterator[Cloud]:
        """A cloud with it, which trains in no time."""
        cloud = self.cloud(folder)
        cloud.start()
        yield cloud
        cloud.kill()


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `folder` an owner's empty home: nothing of the real one is read or written."""
    monkeypatch.setenv("HOME", str(folder / "home"))
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / "home" / name.lower()))


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path) -> Light:
    """For tests that ask nothing about accuracy."""
    folder = tmp_path_factory.mktemp("light")
    tiny, bundle = folder / "tiny", folder / "bundle"
    AutoTokenizer.from_pretrained(resolve("default")).save_pretrained(tiny)
    BertModel(
        BertConfig(
            vocab_size=30_522,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
        )
    ).save_pretrained(tiny)
    files = BackboneFiles.open(str(tiny))
    shutil.copytree(bundle_folder, bundle, ignore=shutil.ignore_patterns(ENCODER))
    manifest = Manifest.from_json((bundle_folder / MANIFEST).read_bytes())
    named = Backbone(files.name, files.sha256, 32)
    (bundle / MANIFEST).write_bytes(replace(manifest, backbone=named, embed={}).to_json())
    device_encoder.write(files, bundle / ENCODER)
    return Light(tiny, offered(bundle))


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An owner's empty home."""
    at_home(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def lesson(owner: Path) -> tuple[list[str], list[str]]:
    """Options of ``sotto customize`` that have a head learn from 36 messages, and these."""
    lines = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()[:37]
    table = owner / "train.tsv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--input", str(table), "--method", "head", "--epochs", "1", "--json"]
    return options, [line.split("\t")[0] for line in lines[1:]]


@pytest.fixture
def cloud(owner: Path, bundle_folder: Path) -> Iterator[Cloud]:
    """A running cloud with an empty state."""
    running = Cloud.at(owner, bundle_folder)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def alone(owner: Path, bundle_folder: Path) -> Iterator[Agent]:
    """A running agent that knows of no cloud, with a bundle."""
    running = Agent.at(owner)
    running.hold(bundle_folder)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def agent(owner: Path, cloud: Cloud) -> Iterator[Agent]:
    """A running agent, enrolled with the cloud, with its bundle."""
    running = Agent.at(owner, cloud=cloud.address, tenant="t", token=cloud.enroll("t"))
    running.hold(cloud.bundle)
    running.start()
    yield running
    running.kill()
