"""What the tests of jobs, training and serving share: a tiny encoder, a tiny
bundle made from it, examples that can be learnt, and a real server on a socket.

Everything is real but small: a BERT of random weights answers like a large one,
only faster, and a bundle needs its files and hashes, not its calibration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from sottovoce.cloud.config import Settings
from sottovoce.cloud.job import Example, Release
from sottovoce.cloud.models import backbone
from sottovoce.cloud.server.server import Server
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.bundle import manifest as bundles
from sottovoce.core.bundle.levels import Level
from sottovoce.v1 import (
    bundles_pb2_grpc,
    inference_pb2_grpc,
    training_pb2,
    training_pb2_grpc,
)

TOPICS = {
    "garden": ("tree", "leaf", "soil", "rose", "grass", "seed", "lawn", "plant", "root"),
    "kitchen": ("bread", "oven", "salt", "knife", "soup", "spoon", "flour", "sugar", "plate"),
    "office": ("desk", "printer", "paper", "letter", "phone", "chair", "meeting", "memo", "file"),
}
FILLER = ("the", "a", "and", "with", "of", "my", "is", "on", "was", "very", "some", "there")
WORDS = [*(word for topic in TOPICS.values() for word in topic), *FILLER]
RELEASE = Release("pct2t.v1", 30.0, "balanced", "bundle", "default")


def examples(
    count: int, *, plain: int = 0, seed: int = 0, topics: Sequence[str] = tuple(TOPICS)
) -> list[Example]:
    """Texts whose topic shows in half of their words, the topics in turn."""
    random = np.random.default_rng(seed)
    made = []
    for i in range(count):
        label = topics[i % len(topics)]
        words = [
            *random.choice(TOPICS[label], 4, replace=False),
            *random.choice(FILLER, 4, replace=False),
        ]
        ids = random.integers(0, len(WORDS), plain)
        text = " ".join(words[j] for j in random.permutation(len(words)))
        # The plain tokens are released as they are: the easiest case for the head.
        made.append(Example(text, label, tuple(WORDS[j] for j in ids), tuple(map(int, ids))))
    return made


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """Saves a BERT with random weights, 2 layers, hidden 32, and a WordPiece vocabulary."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(vocabulary))}
    names = {f"{key}_token": f"[{key.upper()}]" for key in ("pad", "unk", "cls", "sep")}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=names["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(ids),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=300,
    )
    BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def tiny_bundle(
    folder: Path, backbone_folder: Path, *, language: str = "en", counts: bool = False
) -> Path:
    """Writes a bundle whose word list is ``WORDS``; its levels are made up. ``counts`` adds how
    often each word is met."""
    loaded = backbone.load(str(backbone_folder))
    random = np.random.default_rng(0)
    rows = random.normal(size=(len(WORDS), 4)).astype(np.float32)
    folder.mkdir(parents=True)
    np.save(folder / "rows.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))
    tokens = random.normal(size=(len(loaded.tokenizer), 4)).astype(np.float32)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "token_prior.npy", np.full(len(tokens), -np.log(len(tokens)), np.float32))
    np.save(folder / "members.npy", np.arange(len(WORDS), dtype=np.int32))
    if counts:
        np.save(folder / "class_counts.npy", random.integers(1, 99, len(WORDS)).astype(np.float32))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (folder / "tokenizer.json").write_bytes((backbone_folder / "tokenizer.json").read_bytes())
    (folder / "large.bin").write_bytes(random.bytes(600_000))
    level = Level(30.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    manifest = bundles.Manifest(
        backbone=bundles.Backbone(loaded.name, loaded.sha256, loaded.hidden_size),
        language=language,
        dimensions=4,
        words=len(WORDS),
        tagset=("NOUN",),
        policies={"default": ("NOUN",)},
        clitics=(),
        classes={"*": bundles.WordClass(0, len(WORDS), None, 0, {})},
        calibration={"pct2t.v1": {"balanced": level}},
        curve={},
        files={
            file.name: bundles.StoredFile(file.stat().st_size, bundles.sha256(file))
            for file in sorted(folder.iterdir())
        },
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return folder


@dataclasses.dataclass
class Caller:
    """Stubs over a real channel, with one tenant's metadata."""

    channel: grpc.Channel
    metadata: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        self.training = training_pb2_grpc.TrainingStub(self.channel)
        self.inference = inference_pb2_grpc.InferenceStub(self.channel)
        self.bundles = bundles_pb2_grpc.BundlesStub(self.channel)

    def create(self, bundle_id: str, **changes: object) -> training_pb2.Job:
        """A job for adapter "topics"."""
        settings = {"epochs": 6, "batch_size": 8, **changes.pop("training", {})}  # type: ignore[dict-item]
        request = training_pb2.CreateJobRequest(
            request_id=str(changes.pop("request_id", uuid.uuid4())),
            adapter=str(changes.pop("adapter", "topics")),
            training=training_pb2.TrainingSettings(**settings),
            release=training_pb2.ReleaseSettings(
                mechanism="pct2t.v1", eta=30.0, level="balanced", bundle_id=bundle_id
            ),
        )
        return self.training.CreateJob(request, metadata=self.metadata).job

    def upload(self, job_id: str, rows: Sequence[Example], *, first: int = 0, size: int = 8) -> int:
        """Uploads in messages of ``size``; example ids are their place in the whole."""
        messages = (
            message(job_id, first + at, rows[at : at + size]) for at in range(0, len(rows), size)
        )
        return int(self.training.UploadExamples(messages, metadata=self.metadata).next_sequence)

    def start(self, job_id: str, total: int) -> training_pb2.Job:
        """Queues the job."""
        request = training_pb2.StartJobRequest(job_id=job_id, total_examples=total)
        return self.training.StartJob(request, metadata=self.metadata).job

    def get(self, job_id: str) -> training_pb2.Job:
        """The job as it stands."""
        request = training_pb2.GetJobRequest(job_id=job_id)
        return self.training.GetJob(request, metadata=self.metadata).job

    def submit(self, bundle_id: str, rows: Sequence[Example], **changes: object) -> str:
        """Creates, uploads and starts; gives the job's id."""
        job = self.create(bundle_id, **changes)
        self.upload(job.id, rows)
        self.start(job.id, len(rows))
        return job.id

    def watch(self, job_id: str, *, timeout: float = 60) -> list[training_pb2.Job]:
        """All states shown until the job ends."""
        request = training_pb2.WatchJobRequest(job_id=job_id)
        stream = self.training.WatchJob(request, metadata=self.metadata, timeout=timeout)
        return [shown.job for shown in stream]


def message(
    job_id: str, first: int, rows: Sequence[Example], prefix: str = "example"
) -> training_pb2.UploadExamplesRequest:
    """One upload message."""
    return training_pb2.UploadExamplesRequest(
        job_id=job_id,
        first_sequence=first,
        examples=[
            training_pb2.PrivatizedExample(
                example_id=f"{prefix}-{sequence}",
                released_text=row.text,
                label=row.label,
                released_plain_tokens=row.plain_tokens,
                plain_token_ids=row.plain_token_ids,
            )
            for sequence, row in enumerate(rows, start=first)
        ],
    )


def credentials(tenant: str, token: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call."""
    return (("sottovoce-tenant", tenant), ("authorization", f"Bearer {token}"))


@dataclasses.dataclass
class Cloud:
    """A server in this process, and a way to call it as any tenant."""

    server: Server
    settings: Settings

    @property
    def bundle_id(self) -> str:
        """The default bundle."""
        return next(iter(self.server.bundles))

    @contextlib.contextmanager
    def caller(self, tenant: str = "acme", token: str | None = None) -> Iterator[Caller]:
        """A client; the tenant is enrolled unless a token is given."""
        token = token or self.server.tenants.enroll(tenant)
        with grpc.insecure_channel(self.server.address) as channel:
            yield Caller(channel, credentials(tenant, token))

    def work(self) -> None:
        """Trains all that is queued, in this thread."""
        settings = self.settings
        worker = Worker(settings.state, settings.backbone, bundles=settings.bundles)
        while worker.run_next():
            pass
        worker.jobs.store.close()


@contextlib.contextmanager
def cloud(settings: Settings) -> Iterator[Cloud]:
    """A running server, stopped at the end."""
    server = Server(settings)
    server.start()
    try:
        yield Cloud(server, settings)
    finally:
        server.stop()


def environment() -> dict[str, str]:
    """Ours, for a subprocess: one thread, nothing fetched."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
