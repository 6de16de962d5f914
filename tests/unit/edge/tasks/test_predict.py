"""Predictions: privacy as trained, order kept, errors where they belong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, Unavailable
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.retry import WINDOW
from sottovoce.edge.config import CloudConfig
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.predict import Predictor
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, customizer, opened
from tests.support.cut_line import Line
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until


@contextmanager
def _trained(folder: Path, bundle: Path, tagger: Tagger) -> Iterator[tuple[Parts, StubCloud]]:
    """Open an agent with an adapter "desk" that was trained at level "light"."""
    with stub_cloud(bundle) as cloud:
        config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
        with opened(config, tagger) as device:
            _train(device, "light")
            yield device, cloud


@pytest.fixture
def both(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Parts, StubCloud]]:
    with _trained(tmp_path, small_bundle_folder, lexicon_tagger) as found:
        yield found


@pytest.fixture
def device(both: tuple[Parts, StubCloud]) -> Parts:
    return both[0]


@pytest.fixture
def cloud(both: tuple[Parts, StubCloud]) -> StubCloud:
    return both[1]


def _train(device: Parts, level: str) -> None:
    settings = agent.CustomizationSettings(
        adapter="desk", privacy=agent.PrivacyOptions(level=level), replace=True
    )
    examples = [
        agent.LabelledText(text=f"{word} {word} was here", label=label)
        for word, label in (("river", "wet"), ("stone", "dry"))
        for _ in range(5)
    ]
    record = customizer(device).accept(settings, examples)
    Uploader(device.cloud, device.outbox).carry(record.id)
    until(lambda: device.outbox.get(record.id).state in ENDED)  # so does the uploader's thread


def _request(text: str, adapter: str = "desk", level: str = "") -> agent.PredictRequest:
    return agent.PredictRequest(
        text=text, adapter=adapter, privacy=agent.PrivacyOptions(level=level)
    )


def test_labels_come_from_what_was_trained(device: Parts) -> None:
    wet = device.predictor.predict(_request("the river"))
    assert wet.label == "wet"
    assert device.predictor.predict(_request("the stone")).label == "dry"
    assert [s.label for s in wet.scores] == ["wet", "dry"]
    assert wet.scores[0].score > wet.scores[1].score
    assert sum(s.score for s in wet.scores) == pytest.approx(1)


def test_the_default_privacy_is_that_of_the_training(device: Parts) -> None:
    text = "the river and the stone by the garden of the clinic"
    assert device.default.level == "balanced"
    trained = device.releases.release(text, Setting("light"))
    assert device.predictor.predict(_request(text)).released_text == trained.text
    strong = device.releases.release(text, Setting("strong"))
    assert device.predictor.predict(_request(text, level="strong")).released_text == strong.text


def test_a_training_that_failed_does_not_change_the_default_privacy(
    device: Parts, cloud: StubCloud
) -> None:
    text = "the river and the stone by the garden of the clinic"
    assert device.outbox.newest("desk").state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    before = device.predictor.predict(_request(text)).released_text
    cloud.fail_training = "no"
    _train(device, "strong")
    assert device.outbox.newest("desk").state == agent.CUSTOMIZATION_STATE_FAILED
    assert device.predictor.predict(_request(text)).released_text == before
    cloud.fail_training = ""
    _train(device, "strong")
    assert device.outbox.newest("desk").state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    strong = device.releases.release(text, Setting("strong"))
    assert device.predictor.predict(_request(text)).released_text == strong.text


def test_a_stream_keeps_order_and_ids_far_beyond_its_window(device: Parts) -> None:
    words = ["river" if n % 3 else "stone" for n in range(4 * WINDOW)]
    requests = (
        agent.PredictStreamRequest(request_id=f"r{n}", request=_request(word))
        for n, word in enumerate(words)
    )
    answers = list(device.predictor.predict_stream(requests))
    assert [a.request_id for a in answers] == [f"r{n}" for n in range(4 * WINDOW)]
    assert [a.response.label for a in answers] == [
        {"river": "wet", "stone": "dry"}[word] for word in words
    ]


def test_a_stream_survives_a_line_cut_in_the_middle(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        _trained(tmp_path, small_bundle_folder, lexicon_tagger) as (device, cloud),
        closing(Line(cloud.address)) as line,
        closing(Cloud(CloudConfig(line.address, "t", device.config.cloud.token_file))) as far,
    ):
        predictor = Predictor(device.releases, far, device.outbox, device.default, device.home)
        before = device.ledger.spending()
        words = [f"{'river' if n % 3 else 'stone'} at the pond {n}" for n in range(4 * WINDOW)]
        answers = predictor.predict_stream(
            agent.PredictStreamRequest(request_id=word, request=_request(word)) for word in words
        )
        seen = []
        for answer in answers:
            seen.append(answer)
            if len(seen) in (7, 50):
                line.cut()
        assert [answer.request_id for answer in seen] == words
        assert {a.response.label for a in seen} == {"wet", "dry"}
        assert line.connections >= 3
        sent: dict[str, set[bytes]] = {}
        for query in cloud.received["PredictStream"]:
            asked = query.request.SerializeToString(deterministic=True)
            sent.setdefault(query.request_id, set()).add(asked)
        assert len(sent) == len(words)
        assert not sent.keys() & set(words)  # the app's own names stay on the device
        assert all(len(versions) == 1 for versions in sent.values())
        charged = device.ledger.spending()
        assert charged.releases == before.releases + len(words)
        releases = [device.releases.release(word, Setting("light")) for word in words]
        assert charged.spent == pytest.approx(before.spent + sum(r.charge for r in releases))
        assert device.ledger.spending() == charged


def test_a_stream_runs_no_further_ahead_than_its_window(device: Parts) -> None:
    taken = 0
    answered = 0

    def requests() -> Iterator[agent.PredictStreamRequest]:
        nonlocal taken
        for n in range(3 * WINDOW):
            taken += 1
            assert taken - answered <= WINDOW + 2
            yield agent.PredictStreamRequest(request_id=str(n), request=_request("river"))

    for _ in device.predictor.predict_stream(requests()):
        answered += 1
    assert answered == 3 * WINDOW


def test_the_first_error_comes_after_the_answers_before_it(device: Parts) -> None:
    requests = [
        agent.PredictStreamRequest(request_id=text, request=_request(text))
        for text in ("river", "stone", " ", "river")
    ]
    answers = device.predictor.predict_stream(requests)
    assert [next(answers).request_id, next(answers).request_id] == ["river", "stone"]
    with pytest.raises(InvalidInput, match="empty"):
        next(answers)


def test_a_stream_whose_reader_leaves_ends_its_threads(device: Parts) -> None:
    before = threading.active_count()
    endless = (
        agent.PredictStreamRequest(request_id="", request=_request("river")) for _ in iter(int, 1)
    )
    answers = device.predictor.predict_stream(endless)
    next(answers)
    answers.close()
    until(lambda: threading.active_count() <= before)


def test_the_cloud_gets_ids_and_the_owner_names(device: Parts, cloud: StubCloud) -> None:
    device.predictor.predict(_request("the river"))
    identity = device.outbox.newest("desk").adapter_id
    assert [asked.adapter for asked in cloud.asked] == [identity]
    assert cloud.adapters == [identity]
    labels = {e.label for e in cloud.examples()}
    assert len(labels) == 2
    assert not labels & {"wet", "dry"}
    # by the cloud's name it can be asked for as well, and answers with the cloud's labels
    assert device.predictor.predict(_request("the river", adapter=f"id:{identity}")).label in labels


def test_an_adapter_of_an_earlier_version_keeps_its_name_until_it_is_trained_anew(
    device: Parts, cloud: StubCloud
) -> None:
    """Then names went to the cloud unchanged, and the device kept no labels."""
    record = device.outbox.newest("desk")
    names, _ = device.outbox.adapter("desk")
    (wet,) = (sent for sent, own in names.labels.items() if own == "wet")
    with cloud.database.write() as change:
        change.change("UPDATE adapters SET name = 'desk'")
    record.adapter_id = ""
    place = b"customization" + record.id.encode()
    sealed = device.store.seal.seal(record.SerializeToString(), place)
    with device.store.transaction() as transaction:
        transaction.execute("UPDATE customizations SET labels = NULL, sealed = ?", (sealed,))
    assert device.predictor.predict(_request("the river")).label == wet
    assert cloud.asked[-1].adapter == "desk"
    cloud.fail_training = "no"
    _train(device, "light")
    assert device.predictor.predict(_request("the river")).label == wet
    cloud.fail_training = ""
    _train(device, "light")
    assert device.predictor.predict(_request("the river")).label == "wet"
    assert cloud.asked[-1].adapter not in ("", "desk")


def test_what_the_cloud_refuses_is_told_with_the_owners_names(
    device: Parts, cloud: StubCloud
) -> None:
    identity = device.outbox.newest("desk").adapter_id

    error = NotFound(f"{identity} is gone", fix=f"train {identity}", subject=identity)
    cloud.refuses = {"Predict": error, "PredictStream": error}
    streamed = [agent.PredictStreamRequest(request=_request("river"))]
    for ask in (
        lambda: device.predictor.predict(_request("river")),
        lambda: list(device.predictor.predict_stream(streamed)),
    ):
        with pytest.raises(NotFound, match="desk is gone") as caught:
            ask()
        assert (caught.value.fix, caught.value.subject) == ("train desk", "desk")


def test_sizes_of_what_leaves_are_few(device: Parts, cloud: StubCloud) -> None:
    texts = [" ".join(["river"] * n) for n in range(1, 60)]
    for text in texts:
        device.predictor.predict(_request(text))
    assert len({len(asked.released_text) for asked in cloud.asked}) == len(texts)
    assert {asked.ByteSize() for asked in cloud.asked} == {512}


def test_unknown_adapters_and_missing_clouds_are_told_apart(
    device: Parts, cloud: StubCloud
) -> None:
    spent = device.ledger.spending()
    with pytest.raises(NotFound, match="no such adapter on this device: 'none'"):
        device.predictor.predict(_request("river", adapter="none"))
    assert (cloud.asked, device.ledger.spending()) == ([], spent)
    with pytest.raises(NotFound, match="no such adapter for this tenant"):
        device.predictor.predict(_request("river", adapter="id:none"))
    with pytest.raises(InvalidInput, match="no adapter"):
        device.predictor.predict(_request("river", adapter=""))
    cloud.stop()
    with pytest.raises(Unavailable):
        device.predictor.predict(_request("river"))


def test_without_a_cloud_no_privacy_is_spent(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        asked = _request("river")
        asked.where = agent.WHERE_CLOUD
        with pytest.raises(NotReady, match=r"cloud\.address"):
            device.predictor.predict(asked)
        with pytest.raises(NotReady, match=r"cloud\.address"):
            next(device.predictor.predict_stream(iter([agent.PredictStreamRequest(request=asked)])))
        assert device.ledger.spending().releases == 0
