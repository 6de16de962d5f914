"""Corrected answers: refused when they could not be taught, else taught once, as examples are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import DataLoss, InvalidInput, NotFound, NotReady, QuotaExceeded
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.corrections import Corrections
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks import local_inference as homes
from sottovoce.edge.tasks.customize import Customizer, Learner
from sottovoce.edge.tasks.parts import Parts, status
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, customizer, opened, queued, teach
from tests.support.plain_encoder import PlainEncoder
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

TAUGHT = (("river water", "wet"), ("stone salt", "dry"))
PAIRS = tuple((word + " the" * n, label) for word, label in TAUGHT for n in range(1, 6))
FIRST = PAIRS[0][0]
WANTED = agent.CustomizationSettings(adapter="desk", add=True, corrections=True)


@contextmanager
def _device(
    folder: Path, bundle: Path, tagger: Tagger, **environ: str
) -> Iterator[tuple[Parts, StubCloud]]:
    """Open a device with an adapter "desk" that the cloud has trained."""
    with stub_cloud(bundle) as cloud:
        config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address, **environ)
        with opened(config, tagger) as device:
            teach(device, "desk", TAUGHT)
            yield device, cloud


@pytest.fixture
def taught(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Parts, StubCloud]]:
    with _device(tmp_path, small_bundle_folder, lexicon_tagger) as both:
        yield both


def _correct(device: Parts, *pairs: tuple[str, str], adapter: str = "desk") -> int:
    each = [adapters.Correction(text=text, label=label) for text, label in pairs]
    return device.corrector.keep(adapters.KeepCorrectionsRequest(adapter=adapter, corrections=each))


def _waiting(device: Parts) -> list[tuple[str, str]]:
    return [(each.text, each.label) for each in device.corrector.waiting("desk")]


def _ended(device: Parts, record: agent.Customization) -> agent.Customization:
    Uploader(device.cloud, device.outbox, first_wait=0.02).carry(record.id)
    until(lambda: device.outbox.get(record.id).state in ENDED)
    return device.outbox.get(record.id)


def test_they_are_released_as_examples_are_and_learnt_once(
    taught: tuple[Parts, StubCloud],
) -> None:
    device, cloud = taught
    before = device.ledger.spending()
    known = len(cloud.jobs)
    assert _correct(device, *PAIRS) == 10
    assert device.ledger.spending() == before  # nothing was released
    assert [(s.adapter, s.waiting, s.taken) for s in status(device).corrections] == [
        ("desk", 10, 0)
    ]
    record = customizer(device).accept(WANTED, [])
    setting = device.outbox.trained_with(record.id)
    assert setting is not None
    assert (setting.level, record.examples) == ("light", 10)
    own = device.outbox.adapter("desk")[0].label
    released = Counter((e.released_text, own(e.label)) for e in queued(device, record.id))
    assert released == Counter(
        (device.releases.release(text, setting).text, label) for text, label in PAIRS
    )
    spent = device.ledger.spending()
    assert spent.releases == before.releases + 10
    assert spent.labels_as_they_are == before.labels_as_they_are + 10
    assert (_waiting(device), status(device).corrections[0].taken) == ([], 10)
    assert _ended(device, record).state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    assert not status(device).corrections
    assert Counter(_texts(cloud.examples(known))) == Counter(
        text for text, _ in released.elements()
    )
    with pytest.raises(NotReady, match="no corrections of 'desk' wait"):
        customizer(device).accept(WANTED, [])


def _texts(examples: list[training.PrivatizedExample]) -> list[str]:
    return [example.released_text for example in examples]


def test_a_text_corrected_again_is_the_same_release_and_costs_its_label_alone(
    taught: tuple[Parts, StubCloud],
) -> None:
    device, _ = taught
    _correct(device, *PAIRS)
    first = customizer(device).accept(WANTED, [])
    before, released = device.ledger.spending(), queued(device, first.id)
    _ended(device, first)
    _correct(device, (FIRST, "wet"), (FIRST, "dry"), *PAIRS[1:])
    again = customizer(device).accept(WANTED, [])
    assert Counter(_texts(queued(device, again.id))) == Counter(_texts(released))
    spent = device.ledger.spending()
    assert (spent.spent, spent.releases) == (before.spent, before.releases)
    assert spent.labels_as_they_are == before.labels_as_they_are + 1


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_they_come_back_where_nothing_was_learnt(taught: tuple[Parts, StubCloud], how: str) -> None:
    device, cloud = taught
    _correct(device, *PAIRS)
    record = customizer(device).accept(WANTED, [])
    if how == "cancelled":
        device.adapters.cancel(adapters.CancelCustomizationRequest(id=record.id))
    else:
        cloud.fail_training = "no room"
        assert _ended(device, record).state == agent.CUSTOMIZATION_STATE_FAILED
    assert _waiting(device) == list(PAIRS)
    cloud.fail_training = ""
    before = device.ledger.spending()
    again = customizer(device).accept(WANTED, [])
    assert device.ledger.spending() == before  # they had been released, and were charged then
    assert _ended(device, again).state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    assert _waiting(device) == []


def test_what_is_refused_takes_and_charges_nothing(taught: tuple[Parts, StubCloud]) -> None:
    device, _ = taught
    before, made = device.ledger.spending(), len(device.outbox.all())
    refusals: list[tuple[tuple[tuple[str, str], ...], agent.CustomizationSettings, str, str]] = [
        (PAIRS, agent.CustomizationSettings(adapter="desk", corrections=True), "anew", "add"),
        (PAIRS[:5], WANTED, "5 examples are too few", "beside corrections"),
        (PAIRS[:4] + PAIRS[5:6] + PAIRS[:4], WANTED, "too few", "--input"),
    ]
    for pairs, wanted, said, fix in refusals:
        _correct(device, *pairs)
        held = _waiting(device)
        with pytest.raises(InvalidInput, match=said) as refused:
            customizer(device).accept(wanted, [])
        assert fix in refused.value.fix
        assert _waiting(device) == held
        device.corrector.forget(adapters.ForgetCorrectionsRequest(adapter="desk"))
    assert (device.ledger.spending(), len(device.outbox.all())) == (before, made)
    assert device.store.rows("SELECT * FROM outbox WHERE sequence IS NULL") == []
    _correct(device, *PAIRS[:2])
    others = [agent.LabelledText(text=text, label=label) for text, label in PAIRS[2:]]
    assert customizer(device).accept(WANTED, others).examples == 10


def test_a_label_that_is_gone_is_told_with_what_helps(taught: tuple[Parts, StubCloud]) -> None:
    device, _ = taught
    _correct(device, *PAIRS)
    others = (("river water", "fluid"), ("stone salt", "dry"))
    teach(device, "desk", others, replace=True)
    before = device.ledger.spending()
    table = [agent.LabelledText(text="the pond", label="fluid")] * 2
    with pytest.raises(
        InvalidInput,
        match="correction 1: the adapter no longer has the label 'wet', nor those of 4 more",
    ) as refused:
        customizer(device).accept(WANTED, table)
    for named in (
        "`sotto correct desk TEXT LABEL`",
        "`sotto corrections desk --show`",
        "`sotto corrections desk --forget --text TEXT`",
    ):
        assert named in refused.value.fix
    assert device.ledger.spending() == before
    assert _waiting(device) == list(PAIRS)
    for text, _ in PAIRS[:3]:  # what it says is done
        device.corrector.forget(adapters.ForgetCorrectionsRequest(adapter="desk", text=text))
    _correct(device, *((text, "fluid") for text, _ in PAIRS[3:5]))
    assert customizer(device).accept(WANTED, table).examples == 9
    with pytest.raises(InvalidInput, match="the adapter has no label 'wet'") as refused:
        customizer(device).accept(
            agent.CustomizationSettings(adapter="desk", add=True),
            [agent.LabelledText(text=text, label=label) for text, label in PAIRS],
        )
    assert "corrections" not in refused.value.fix  # it is the table's


@pytest.mark.parametrize("text", ["a\0b", "long " * 20_000])
def test_examples_and_corrections_are_numbered_apart(
    taught: tuple[Parts, StubCloud], text: str
) -> None:
    device, _ = taught
    # As an agent with other limits may have kept it.
    Corrections(device.store).keep("desk", [PAIRS[0], (text, "wet")], 10)
    table = [agent.LabelledText(text=text, label=label) for text, label in PAIRS[1:]]
    with pytest.raises(InvalidInput, match="correction 2: ") as refused:
        customizer(device).accept(WANTED, table)
    assert "sotto corrections desk --forget --text" in refused.value.fix
    table[2].text = text
    with pytest.raises(InvalidInput, match="example 3: ") as refused:
        customizer(device).accept(WANTED, table)
    assert "sotto corrections" not in refused.value.fix


def test_one_corrected_while_they_are_released_is_not_learnt_as_it_was(
    taught: tuple[Parts, StubCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, _ = taught
    _correct(device, *PAIRS)
    customizing = customizer(device)
    stage = Customizer._stage

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        staged = stage(*args, **kwargs)
        _correct(device, (FIRST, "dry"))
        return staged

    before = device.ledger.spending()
    with monkeypatch.context() as patched:
        patched.setattr(Customizer, "_stage", meanwhile)
        with pytest.raises(NotReady, match="changed meanwhile"):
            customizing.accept(WANTED, [])
    assert device.ledger.spending() == before
    assert set(_waiting(device)) == {*PAIRS[1:], (FIRST, "dry")}
    assert customizing.accept(WANTED, []).examples == 10


@pytest.mark.parametrize(
    ("text", "label", "said", "fix"),
    [
        ("the pond", "wett", "no label 'wett'", "did you mean 'wet'? it has: dry, wet"),
        ("the pond", "blue", "no label 'blue'", "it has: dry, wet"),
        ("the pond", " ", "example 2: it has no label", "label"),
        (" ", "wet", "example 2: the text is empty", "word"),
        ("a\0b", "wet", "example 2: the text looks binary", "text"),
        ("long " * 20_000, "wet", "example 2: its text is too long", "64 KiB"),
    ],
)
def test_what_could_not_be_taught_is_refused_and_none_is_kept(
    taught: tuple[Parts, StubCloud], text: str, label: str, said: str, fix: str
) -> None:
    device, _ = taught
    with pytest.raises(InvalidInput, match=said) as refused:
        _correct(device, ("the river", "wet"), (text, label))
    assert fix in refused.value.fix
    assert _waiting(device) == []


def test_only_what_can_be_added_to_is_corrected(
    taught: tuple[Parts, StubCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, cloud = taught
    monkeypatch.setattr(homes, "_open_encoder", PlainEncoder)
    examples = [agent.LabelledText(text=text, label=label) for text, label in PAIRS]
    Learner(device.store, device.outbox, device.home, device.home.folder).learn("mine", examples)
    teach(device, "words", TAUGHT, label_words=True)
    cloud.may_train.clear()
    settings = agent.CustomizationSettings(adapter="new")
    customizer(device).accept(settings, examples)
    for name, said in (
        ("mine", "learnt on this device alone"),
        ("words", "nothing can be added to 'words': label words"),
        ("new", "has not trained"),
    ):
        with pytest.raises(NotReady, match=said) as refused:
            _correct(device, PAIRS[0], adapter=name)
        assert refused.value.fix
    cloud.may_train.set()
    for ask in (
        lambda: _correct(device, PAIRS[0], adapter="none"),
        lambda: [*device.corrector.waiting("none")],
        lambda: device.corrector.forget(adapters.ForgetCorrectionsRequest(adapter="none")),
    ):
        with pytest.raises(NotFound):
            ask()


def test_the_owner_bounds_them_and_may_have_none(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    bounded = {"SOTTO_PREDICT_CORRECTIONS": "3"}
    with _device(tmp_path, small_bundle_folder, lexicon_tagger, **bounded) as (device, _):
        assert _correct(device, *PAIRS[:3]) == 3
        with pytest.raises(QuotaExceeded, match="may have 3"):
            _correct(device, PAIRS[3])
    none = configured(tmp_path, SOTTO_PREDICT_CORRECTIONS="0")
    with opened(none, lexicon_tagger) as device:
        with pytest.raises(NotReady, match="keeps no corrections") as refused:
            _correct(device, PAIRS[0])
        assert "predict.corrections" in refused.value.fix
        assert len(_waiting(device)) == 3  # what there is can be shown, released and forgotten


def test_one_that_was_altered_stops_the_release_of_all(taught: tuple[Parts, StubCloud]) -> None:
    device, _ = taught
    _correct(device, *PAIRS)
    before = device.ledger.spending()
    with device.store.transaction() as transaction:
        transaction.execute("UPDATE corrections SET sealed = x'00' WHERE number = 3")
    with pytest.raises(DataLoss):
        customizer(device).accept(WANTED, [])
    assert device.ledger.spending() == before


def test_they_go_with_their_adapter(taught: tuple[Parts, StubCloud]) -> None:
    device, cloud = taught
    _correct(device, *PAIRS)
    cloud.may_train.clear()
    customizer(device).accept(WANTED, [])
    device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert device.store.rows("SELECT * FROM corrections") == []
    cloud.may_train.set()
