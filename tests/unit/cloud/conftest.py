"""Fixtures of the cloud's tests: tiny backbones of every family."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.store import open_objects
from sottovoce.cloud.store.s3 import S3Objects, S3Place
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.training.worker import Worker
from tests.support import backbones, postgres_server
from tests.support import s3_server as s3_server_module
from tests.support.buckets import FILES
from tests.support.clock import Clock
from tests.support.postgres_server import PostgresServer
from tests.support.s3_server import S3Server
from tests.support.stores import FileStore, ServerStore, Store


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 with random weights and a cased byte-level BPE tokenizer."""
    return backbones.tiny_decoder(tmp_path_factory.mktemp("backbones") / "tiny-qwen2")


@pytest.fixture(scope="session")
def tiny_encoder_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 with random weights and a cased SentencePiece-style Unigram tokenizer."""
    return backbones.tiny_encoder_decoder(tmp_path_factory.mktemp("backbones") / "tiny-t5")


@pytest.fixture(scope="session")
def tiny_causal(tiny_decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Llama and a Mistral with random weights and output embeddings of their own."""
    return backbones.tiny_causal(tmp_path_factory.mktemp("backbones"), tiny_decoder)


@pytest.fixture(scope="session")
def families(
    tiny_decoder: Path,
    tiny_encoder_decoder: Path,
    tiny_causal: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """One tiny backbone of every family that is promised."""
    bert = backbones.tiny_bert(tmp_path_factory.mktemp("backbones") / "tiny-bert")
    return {"bert": bert, "qwen2": tiny_decoder, "t5": tiny_encoder_decoder, **tiny_causal}


@pytest.fixture(scope="session")
def bert(families: dict[str, Path]) -> str:
    """The encoder among them."""
    return str(families["bert"])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = postgres_server.found()
    if programs is None:
        pytest.skip(postgres_server.HINT)
    with postgres_server.running(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of database in turn."""
    if request.param == "sqlite":
        return FileStore()
    return ServerStore(request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    program = s3_server_module.found()
    if program is None:
        pytest.skip(s3_server_module.HINT)
    with s3_server_module.running(program) as server:
        yield server


@pytest.fixture
def objects_url(request: pytest.FixtureRequest) -> str:
    """What `--objects` is: of the state's own folder; for tests marked `on_both_objects`, of a
    bucket, too."""
    if getattr(request, "param", FILES) == FILES:
        return ""
    server: S3Server = request.getfixturevalue("s3_server")
    patched: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in server.environment.items():
        patched.setenv(name, value)
    return server.new()


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Objects:
    """Objects in a bucket of their own."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return S3Objects(S3Place.of(s3_server.new()), tmp_path)


@pytest.fixture
def jobs(tmp_path: Path, objects_url: str) -> Iterator[Jobs]:
    """The jobs of one tenant."""
    database = SqliteDatabase(tmp_path, open_objects(objects_url, tmp_path))
    Tenants(database).enroll("acme")
    yield Jobs(database)
    database.close()


@pytest.fixture
def worker(tmp_path: Path, bert: str, jobs: Jobs, objects_url: str) -> Iterator[Worker]:
    """Return a worker in this process with a separate connection."""
    worker = Worker(tmp_path, bert, objects=objects_url)
    yield worker
    worker.database.close()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test turns."""
    return Clock()
