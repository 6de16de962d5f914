"""What really crosses the wire, read from the bytes between two real processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bench.live.testbed import Agent
from bench.live.wiretap import Wiretap
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.tokenizer import Tokenizer
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.mechanisms.spherical import Mechanism
from sottovoce.core.privacy.policies import DEFAULT, POLICIES
from sottovoce.core.text.words import Context, split
from sottovoce.v1 import training_pb2
from tests.support.canaries import Canary, as_token_ids, plant
from tests.support.paths import HELPDESK

from .conftest import Light


def _forms(secret: str, tokenizer: Tokenizer) -> list[bytes]:
    forms = [secret.encode(), secret.lower().encode(), secret.upper().encode()]
    ids = tokenizer.ids(secret)
    if len(ids) >= 3:  # fewer could meet by chance among the plain tokens' ids
        forms += as_token_ids(ids)
    return forms


def _leaks(canaries: list[Canary], recorded: bytes, tokenizer: Tokenizer) -> list[str]:
    return [
        canary.secret
        for canary in canaries
        if any(form in recorded for form in _forms(canary.secret, tokenizer))
    ]


@pytest.fixture
def watched(owner: Path, light: Light) -> Iterator[tuple[Agent, Wiretap]]:
    cloud = light.cloud(owner)
    cloud.start()
    tap = Wiretap(cloud.address)
    tap.__enter__()
    agent = Agent.at(owner, cloud=tap.address, tenant="t", token=cloud.enroll("t"))
    agent.run("pull", tap.address)
    agent.start()
    yield agent, tap
    cloud.kill()


def test_no_canary_crosses_the_wire(
    watched: tuple[Agent, Wiretap], bundle_folder: Path, tmp_path: Path
) -> None:
    agent, tap = watched
    bundle = Bundle.open(bundle_folder)
    tokenizer = bundle.tokenizer
    canaries = plant(set(bundle.words))
    assert len({c.secret for c in canaries}) == 200
    table = tmp_path / "train.tsv"
    rows = [f"{c.message}\t{'ab'[n % 2]}" for n, c in enumerate(canaries)]
    table.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked = tmp_path / "ask.txt"
    asked.write_text("\n".join(c.message for c in canaries) + "\n", encoding="utf-8")

    try:  # the weakest level, the reconstruction head and a prediction of every message
        options = ["--level", "light", "--reconstruction", "--plain-tokens", "4", "--epochs", "1"]
        agent.run("customize", "canary", "--input", str(table), *options, "--json")
        answers = agent.run("predict", "canary", "--input", str(asked), "--json").splitlines()
        agent.stop()
    finally:
        agent.kill()
        tap.__exit__(None, None, None)

    recorded = b""
    messages: list[bytes] = []
    for connection in tap.connections:
        headers, said = connection.requests()
        messages += said
        recorded += "\n".join(f"{k}: {v}" for k, v in headers).encode() + b"\n" + b"\n".join(said)
    released = [json.loads(line)["released_text"] for line in answers]
    assert len(released) == 200
    # The record is the right one: all that was released for prediction is in it ...
    assert all(text.encode() in recorded for text in released)
    # ... the search finds what is there, as text and as token ids ...
    probe = canaries[0].secret
    ids = tokenizer.ids(probe)
    assert _leaks(canaries[:1], recorded + probe.encode(), tokenizer) == [probe]
    assert _leaks(canaries[:1], recorded + next(as_token_ids(ids)), tokenizer) == [probe]
    # ... and no secret is.
    assert _leaks(canaries, recorded, tokenizer) == []
    # Raw bytes too, framing included, should a decoder have skipped any.
    raw = b"".join(bytes(c.sent) for c in tap.connections)
    assert _leaks(canaries, raw, tokenizer) == []
    _assert_nothing_hidden(messages)

    state = b"".join(p.read_bytes() for p in tmp_path.rglob("agent/**/*") if p.is_file())
    logs = (tmp_path / "agent.log").read_bytes() + (tmp_path / "cloud.log").read_bytes()
    assert _leaks(canaries, state + logs, tokenizer) == []


def _assert_nothing_hidden(messages: list[bytes]) -> None:
    """Uploads hold the declared fields and nothing else: they survive a round trip."""
    uploads = 0
    for message in messages:
        upload = training_pb2.UploadExamplesRequest()
        try:
            upload.ParseFromString(message)
        except Exception:  # noqa: S112 - another type of message
            continue
        if upload.examples and upload.SerializeToString(deterministic=True) == message:
            uploads += len(upload.examples)
            assert all(len(e.plain_token_ids) == 4 for e in upload.examples)
    assert uploads == 200


def test_known_words_stay_only_as_often_as_each_level_says(
    alone: Agent, bundle_folder: Path
) -> None:
    """For each level a test at alpha = 1e-6 over the helpdesk's own messages.

    Each run has a fresh key, so alpha is small: at 0.001 a right mechanism failed now and then.

    The count of protected vocabulary words that come back as themselves is
    compared with its expectation under exact search (two-sided, normal
    approximation of a sum of independent Bernoulli variables: a word after the same word is one
    draw however often it comes, and counts once); and the mean over
    these messages must lie within 10 points of the level's promise, which was
    made for public running text.
    """
    bundle = Bundle.open(bundle_folder)
    for level in ("strong", "balanced", "light"):
        _check_level(alone, bundle, level)


def _check_level(agent: Agent, bundle: Bundle, level: str) -> None:
    lines = (HELPDESK / "train.tsv").read_text(encoding="utf-8").splitlines()[1:201]
    texts = [line.split("\t")[0] for line in lines]
    out = agent.run(
        "privatize", "--level", level, "--json", stdin=("\n".join(texts) + "\n").encode()
    )
    answers = [json.loads(line) for line in out.splitlines()]
    found = bundle.manifest.level("pct2t.v2", level)
    mechanism = mechanisms.make("pct2t.v2", found, POLICIES[DEFAULT].with_noise())
    drawn: Counter[tuple[str, int]] = Counter()
    kept = 0
    seen: set[tuple[str, str]] = set()
    for text, answer in zip(texts, answers, strict=True):
        assert answer["level"] == level
        words = split(text, bundle.manifest.clitics)
        before = Context().before(words, [word.text.lower() for word in words])
        for word, left in zip(answer["words"], before, strict=True):
            typed = text[word["start"] : word["end"]].lower()
            if word["treatment"] == "NOISE" and (typed, left) not in seen:
                seen.add((typed, left))
                name = mechanism.word_class(word["tag"], typed in bundle.manifest.clitics)
                drawn[name, bundle.word_ids[typed]] += 1
                kept += not word["replaced"]
    expected, variance = _expected_kept(bundle, drawn, mechanism)
    z = (kept - expected) / np.sqrt(variance)
    assert abs(z) < stats.norm.isf(5e-7), f"{level}: kept {kept}, expected {expected:.0f}"
    promised = 1 - found.replaced
    assert abs(kept / drawn.total() - promised) < 0.10


def _expected_kept(
    bundle: Bundle, drawn: Counter[tuple[str, int]], mechanism: Mechanism, draws: int = 100
) -> tuple[float, float]:
    """Return mean and variance of the number of kept words, by simulation with exact search."""
    random = np.random.default_rng(11)
    r = bundle.manifest.dimensions
    expected = variance = 0.0
    for (name, word), count in drawn.items():
        members = bundle.class_members(name) if name in bundle.manifest.classes else None
        if members is None or word not in members:
            continue  # not a member of its tag's list: never released as itself
        space = bundle.space[members]
        direction = random.standard_normal((draws, r))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        noisy = (
            bundle.space[word] + random.gamma(r, 1 / mechanism.eta_of(name), (draws, 1)) * direction
        )
        nearest = members[np.argmax(noisy.astype(np.float32) @ space.T, axis=1)]
        p = float(np.mean(nearest == word))
        expected += count * p
        # binomial variance, plus that of the simulated p itself
        variance += count * p * (1 - p) + count**2 * p * (1 - p) / draws
    return expected, variance + 1e-9
