"""What one device writes of an adapter lets another use it and add to it, under its own names."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, NotReady
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import cloud as clients
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.tasks import local_inference as homes
from sottovoce.edge.tasks.adapters import join, share
from sottovoce.edge.tasks.customize import Learner
from sottovoce.edge.tasks.local_inference import Follower
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, opened, teach
from tests.support.encoder_bundle import with_some_files
from tests.support.plain_encoder import PlainEncoder
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

Two = tuple[Parts, Parts, StubCloud]


@pytest.fixture
def two(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Two]:
    """Two devices of one tenant; on the first "desk" was trained."""
    monkeypatch.setattr(homes, "_open_encoder", PlainEncoder)
    bundle = with_some_files(small_bundle_folder, tmp_path / "bundle")
    with ExitStack() as stack:
        cloud = stack.enter_context(stub_cloud(bundle))
        devices = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            config = configured(tmp_path / name, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
            devices.append(stack.enter_context(opened(config, lexicon_tagger)))
        teach(devices[0], "desk", (("river water", "wet"), ("stone salt", "dry")))
        yield devices[0], devices[1], cloud


def ask(device: Parts, name: str, text: str) -> str:
    return device.predictor.predict(agent.PredictRequest(text=text, adapter=name)).label


def test_what_is_shared_is_used_and_taught_on_the_other_device(two: Two) -> None:
    one, other, _ = two
    join(other.store, other.outbox, share(one.outbox, "desk"), "tisch")
    assert ask(other, "tisch", "the river") == "wet"  # in the cloud
    for device, name in ((one, "desk"), (other, "tisch")):
        device.home.fetch(name)
    assert ask(other, "tisch", "the stone") == "dry"  # at home
    before = one.ledger.spending()
    pairs = (("pond song", "wet"), ("train paper", "dry"))
    done = teach(other, "tisch", pairs, add=True)
    assert done.state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    assert done.adapter_id == one.outbox.newest("desk").adapter_id
    assert done.privacy.level == "light"  # as the adapter was trained, whatever is configured
    assert one.ledger.spending() == before  # each has a ledger of its own
    assert other.ledger.spending().releases > 0
    assert not one.home.fetch("desk").up_to_date
    assert ask(one, "desk", "the pond") == "wet"
    assert ask(one, "desk", "the train") == "dry"


def test_what_is_added_keeps_labels_and_settings(two: Two) -> None:
    one, _, cloud = two
    pairs = (("pond song", "wet"), ("train paper", "dusty"))
    spent = one.ledger.spending()
    with pytest.raises(InvalidInput, match="'dusty'"):
        teach(one, "desk", pairs, add=True)
    with pytest.raises(InvalidInput) as refusal:
        teach(one, "desk", pairs, add=True, rank=4)
    assert refusal.value.subject == "rank"
    with pytest.raises(NotFound):
        teach(one, "nobody", pairs, add=True)
    assert one.ledger.spending() == spent
    assert len(cloud.jobs) == 1


def test_what_failed_gives_an_adapter_no_labels(two: Two) -> None:
    one, _, cloud = two
    cloud.fail_training = "no"
    failed = teach(one, "desk", (("pond song", "wet"), ("train paper", "dusty")), replace=True)
    assert failed.state == agent.CUSTOMIZATION_STATE_FAILED
    cloud.fail_training = ""
    with pytest.raises(InvalidInput, match="'dusty'"):
        teach(one, "desk", (("pond song", "wet"), ("train paper", "dusty")), add=True)
    assert sorted(json.loads(share(one.outbox, "desk"))["labels"].values()) == ["dry", "wet"]


def test_what_is_followed_goes_by_the_name_it_has_here_or_by_its_id(two: Two) -> None:
    one, other, _ = two
    theirs = one.outbox.newest("desk").adapter_id
    other.home.fetch(f"id:{theirs}")
    other.home.follow(f"id:{theirs}", True)
    assert other.home.followed() == {theirs: f"id:{theirs}"}
    join(other.store, other.outbox, share(one.outbox, "desk"), "tisch")
    assert other.home.followed() == {theirs: "tisch"}
    texts = (("river", "wet"), ("stone", "dry")) * 5
    examples = [agent.LabelledText(text=text, label=label) for text, label in texts]
    learner = Learner(other.store, other.outbox, other.home, other.home.folder)
    learner.learn("tisch", examples, replace=True)
    assert other.home.followed() == {}  # the name stands for what the cloud does not have


def test_a_joined_adapter_is_forgotten_here_and_nowhere_else(two: Two) -> None:
    one, other, cloud = two
    shared = share(one.outbox, "desk")
    join(other.store, other.outbox, shared)
    for name in ("", "tisch"):  # or they would go together
        with pytest.raises(NotReady, match="as 'desk'"):
            join(other.store, other.outbox, shared, name)
    teach(one, "mail", (("river water", "wet"), ("stone salt", "dry")))
    with pytest.raises(NotReady, match="--name"):
        join(other.store, other.outbox, share(one.outbox, "mail"), "desk")
    assert other.outbox.unfinished() == []
    other.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert other.outbox.all() == []
    assert len(cloud.adapters) == 2
    assert ask(one, "desk", "the river") == "wet"


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"adapter": "../desk"},
        {"adapter_id": ""},
        {"adapter_id": 7},
        {"labels": ["a"]},
        {"labels": {"a": ""}},
        {"labels": {"a": "x", "b": "x"}},
        {"labels": {str(n): str(n) for n in range(1001)}},
        {"training": {"method": "METHOD_OF_NOBODY"}},
        {"training": {"method": "METHOD_HEAD", "rank": 3}},
        {"release": {}},
        {"release": []},
    ],
)
def test_what_is_no_such_file_is_refused(two: Two, change: dict[str, object]) -> None:
    one, other, _ = two
    facts = {**json.loads(share(one.outbox, "desk")), **change}
    with pytest.raises(InvalidInput, match="sotto share"):
        join(other.store, other.outbox, json.dumps(facts).encode())
    for data in (b"", b"[" * 100_000, b"\xff", b"{}" + b" " * (1 << 20)):
        with pytest.raises(InvalidInput, match="sotto share"):
            join(other.store, other.outbox, data)
    assert other.outbox.all() == []


def test_a_new_version_comes_by_itself_and_a_bad_one_changes_nothing(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "WATCH_SECONDS", 1.0)
    one, other, cloud = two
    join(other.store, other.outbox, share(one.outbox, "desk"))
    first = other.home.fetch("desk").version
    assert other.home.followed() == {}
    other.home.follow("desk", True)
    follower = Follower(other.cloud, other.home, look=0.01)
    follower.start()
    try:
        until(lambda: cloud.received["WatchAdapters"])
        cloud.altered = "adapter"  # its bytes, on their way
        teach(one, "desk", (("pond song", "wet"), ("train paper", "dry")), add=True)
        streams = len(cloud.received["WatchAdapters"]) + 1
        until(
            lambda: len(cloud.received["WatchAdapters"]) > streams
        )  # it was refused, and is asked for again
        assert other.home.versions("desk") == [(first, True)]
        assert ask(other, "desk", "the river") == "wet"
        cloud.altered = ""
        until(lambda: other.home.versions("desk")[0][0] != first)
        assert ask(other, "desk", "the pond") == "wet"
        second = other.home.versions("desk")[0][0]
        # Gone back to what was: nothing brings the newer one again before its owner says so.

        def gone_back() -> bool:
            with suppress(NotReady):  # while the fetch is at its last step
                return other.home.roll_back("desk") == first
            return False

        until(gone_back)
        assert other.home.followed() == {}
        teach(one, "desk", (("field song", "wet"), ("city paper", "dry")), add=True)
        cloud.stop()
        assert ask(other, "desk", "the river") == "wet"
        cloud.start()
    finally:
        other.cloud.close()
        follower.stop()
    assert other.home.versions("desk") == [(second, False), (first, True)]


def test_one_that_fails_or_is_followed_no_more_keeps_no_other_from_coming(two: Two) -> None:
    device, _, cloud = two
    teach(device, "shelf", (("river water", "wet"), ("stone salt", "dry")))
    first = {}
    for name in ("desk", "shelf"):
        first[name] = device.home.fetch(name).version
        device.home.follow(name, True)
    desk = AdapterFolder(device.home.folder, device.outbox.newest("desk").adapter_id)

    def comes(words: str) -> None:
        """Teach both adapters; the new version of "shelf" comes after "desk"."""
        before = device.home.versions("shelf")[0]
        for name in ("desk", "shelf"):
            teach(device, name, ((f"{words} song", "wet"), ("train paper", "dry")), add=True)
        until(lambda: device.home.versions("shelf")[0] != before)

    follower = Follower(device.cloud, device.home, look=0.01)
    try:
        with desk.alone():  # as while another fetch is at work
            follower.start()
            comes("pond")
        device.home.follow("desk", False)
        comes("field")
        assert device.home.versions("desk") == [(first["desk"], True)]
        assert len(cloud.received["WatchAdapters"]) == 1
    finally:
        device.cloud.close()
        follower.stop()


def test_the_pause_grows_while_the_cloud_is_away_and_is_short_again_afterwards(two: Two) -> None:
    device, _, cloud = two
    device.home.fetch("desk")
    device.home.follow("desk", True)
    cloud.stop()
    pauses: list[float] = []

    class Pauses(threading.Event):
        """Notes them, and lets none pass."""

        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            if len(pauses) == 7:
                device.home.follow("desk", False)
            return len(pauses) == 8

    follower = Follower(device.cloud, device.home)
    follower._stopped = Pauses()
    follower._run()
    cloud.start()
    for pause, longest in zip(pauses, (2, 4, 8, 16, 32, 60, 60, 2), strict=True):
        assert 0.75 * longest <= pause <= longest


def test_a_stream_of_versions_ends_in_time_and_that_is_no_error(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, _, _ = two
    monkeypatch.setattr(clients, "WATCH_SECONDS", 0.5)
    assert list(device.cloud.watch_adapters(["unknown"], lambda end: None)) == []
