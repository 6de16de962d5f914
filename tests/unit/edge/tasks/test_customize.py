"""Taking examples in: all or none, charged once, refused before privacy is spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, NotReady, QuotaExceeded
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.state.outbox import Staged
from sottovoce.edge.tasks.customize import Customizer
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import customizing, labelled, queued, wanted
from tests.support.full_disk import in_memory, no_mounts

SETTINGS = wanted(adapter="desk")


def _own(device: Parts, example: training.PrivatizedExample) -> str:
    """The owner's name of a queued example's label."""
    return device.outbox.adapter("desk")[0].label(example.label)


def _untouched(device: Parts) -> bool:
    tables = ("charged", "customizations", "outbox")
    empty = all(not device.store.rows(f"SELECT * FROM {t}") for t in tables)
    return empty and device.ledger.spending() == Spending(0, 0)


def test_examples_are_queued_as_released(customizer: Customizer, device: Parts) -> None:
    record = customizer.accept(SETTINGS, labelled())
    assert (record.examples, record.uploaded) == (20, 0)
    assert record.state == agent.CUSTOMIZATION_STATE_UPLOADING
    assert device.outbox.get(record.id) == record
    waiting = queued(device, record.id)
    assert len({e.example_id for e in waiting}) == 20
    # what goes out is the very release an app gets for the same text
    assert Counter((e.released_text, _own(device, e)) for e in waiting) == Counter(
        (device.releases.release(e.text, device.default).text, e.label) for e in labelled()
    )
    assert not any(waiting.plain_token_ids for waiting in waiting)
    assert device.ledger.spending().releases == 20
    release = device.outbox.job_request(record.id).release
    assert (release.mechanism, release.level, release.policy) == (
        "pct2t.v2",
        "balanced",
        "content",
    )
    assert (release.eta, release.bundle_id) == (15.0, device.engine.current().bundle.id)


def test_repeated_texts_are_released_and_charged_once(
    customizer: Customizer, device: Parts
) -> None:
    known = device.releases.release(labelled()[0].text, device.default)
    record = customizer.accept(SETTINGS, labelled() + labelled())
    waiting = queued(device, record.id)
    alike = [e.example_id for e in waiting if e.released_text == known.text]
    assert len(alike) == len(set(alike)) == 2
    spent = device.ledger.spending()
    assert spent.releases == 20
    customizer.accept(wanted(adapter="again"), labelled())
    assert device.ledger.spending() == spent


def test_the_same_request_is_the_same_customisation(customizer: Customizer, device: Parts) -> None:
    settings = wanted(adapter="desk", request_id="r")
    first = customizer.accept(settings, labelled())
    assert customizer.accept(settings, iter(())) == first
    assert len(device.outbox.all()) == 1


def test_the_same_request_twice_at_once_is_one_customisation(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(adapter="desk", request_id="r")
    inner: list[agent.Customization] = []

    def examples() -> Iterator[agent.LabelledText]:
        yield from labelled()
        inner.append(customizer.accept(settings, labelled()))  # overtakes the outer call

    outer = customizer.accept(settings, examples())
    assert [outer] == inner
    assert len(device.store.rows("SELECT * FROM outbox")) == 20
    assert device.store.rows("SELECT * FROM outbox WHERE sequence IS NULL") == []


def test_plain_tokens_are_drawn_for_each_example_and_released_with_it(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(
        adapter="desk", reconstruction=True, privacy=agent.PrivacyOptions(level="light")
    )
    record = customizer.accept(settings, labelled())
    waiting = queued(device, record.id)
    words = device.engine.current().bundle.words
    assert all(len(e.plain_token_ids) == len(e.released_plain_tokens) == 3 for e in waiting)
    assert len({tuple(e.plain_token_ids) for e in waiting}) > 15
    # at this level of the small bundle the noise moves no word
    for example in waiting:
        assert [words[i] for i in example.plain_token_ids] == list(example.released_plain_tokens)
    job = device.outbox.job_request(record.id)
    assert (job.training.reconstruction, job.training.plain_tokens) == (True, 3)


def test_the_methods_settings_reach_the_cloud_and_few_sequences_are_shared(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(
        adapter="desk",
        method=training.METHOD_PREFIX_TUNING,
        virtual_tokens=7,
        reconstruction=True,
        reconstruction_width=48,
        plain_tokens=20,  # of ten words, some of which no noise moves
        plain_sequences=2,
        plain_vocabulary=10,
    )
    record = customizer.accept(settings, labelled())
    asked = device.outbox.job_request(record.id).training
    assert (asked.method, asked.virtual_tokens) == (training.METHOD_PREFIX_TUNING, 7)
    assert (asked.reconstruction_width, asked.plain_tokens) == (48, 20)
    drawn = {tuple(e.plain_token_ids) for e in queued(device, record.id)}
    assert len(drawn) == 2
    released = {tuple(e.released_plain_tokens) for e in queued(device, record.id)}
    assert len(released) > 2  # the same plain tokens, but noise of their own every time


def test_without_word_frequencies_nothing_is_spent(customizer: Customizer, device: Parts) -> None:
    settings = wanted(
        adapter="desk", reconstruction=True, plain_sampling=agent.PLAIN_SAMPLING_FREQUENCY
    )
    with pytest.raises(NotReady, match="word frequencies"):
        customizer.accept(settings, labelled())
    assert _untouched(device)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"adapter": ""}, "lower-case"),
        ({"adapter": "Desk"}, "lower-case"),
        ({"adapter": "x" * 65}, "lower-case"),
        ({"adapter": "desk\n"}, "lower-case"),
        ({"adapter": "_desk"}, "lower-case"),
        ({"adapter": "-desk"}, "lower-case"),
        ({"plain_tokens": 4}, "without reconstruction"),
        ({"reconstruction": True, "plain_tokens": 65}, "up to 64"),
        ({"label_epsilon": -1.0}, "out of range"),
        ({"label_epsilon": math.nan}, "out of range"),
        ({"label_epsilon": 1e9}, "out of range"),
        ({"method": training.METHOD_FULL_FINE_TUNING, "rank": 4}, "a rank without LoRA"),
        ({"virtual_tokens": 4}, "without a prompt or a prefix"),
        ({"plain_sequences": 4}, "without reconstruction"),
    ],
)
def test_wrong_settings_are_refused(
    customizer: Customizer, device: Parts, change: dict[str, object], said: str
) -> None:
    settings = wanted(**change)
    with pytest.raises(InvalidInput, match=said):
        customizer.accept(settings, labelled())
    assert _untouched(device)


def _with(number: int, **change: str) -> list[agent.LabelledText]:
    examples = labelled()
    for name, value in change.items():
        setattr(examples[number], name, value)
    return examples


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        (labelled(7), "7 examples are too few"),
        ([], "0 examples"),
        ([e for e in labelled(40) if e.label == "clinic"], "same label"),
        (_with(19, label="once"), "'once' occurs once"),
        (_with(4, text=""), "example 5: the text is empty"),
        (_with(4, text="a\0b"), "example 5: the text looks binary"),
        (_with(4, text="word " * 14_000), "example 5: its text is too long"),
        (_with(4, label=" "), "example 5: it has no label"),
        (_with(4, label="x" * 257), "example 5: its label is too long"),
    ],
)
def test_examples_that_cannot_be_trained_on_cost_nothing(
    customizer: Customizer, device: Parts, examples: list[agent.LabelledText], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        customizer.accept(SETTINGS, examples)
    assert _untouched(device)


def test_few_examples_are_not_trained_on_privately_unless_that_is_asked_for(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(adapter="desk", dp_epsilon=3.0)
    with pytest.raises(InvalidInput, match="20 examples are few") as caught:
        customizer.accept(settings, labelled())
    assert "1,000" in caught.value.fix
    assert _untouched(device)
    settings.dp_few_examples = True
    record = customizer.accept(settings, labelled())
    asked = device.outbox.job_request(record.id).training
    assert (asked.dp_epsilon, asked.dp_delta) == (3.0, 1e-5)
    spent = device.ledger.spending()
    assert (spent.adapters_private, spent.adapter_epsilon) == (1, 3.0)
    settings.replace = True
    customizer.accept(settings, labelled())  # asked twice, it is told twice
    spent = device.ledger.spending()
    assert (spent.adapters_private, spent.adapter_epsilon) == (2, 6.0)
    assert spent.adapter_delta == pytest.approx(2e-5)


def _public(number: int = 40) -> list[agent.LabelledText]:
    words = ("river", "stone", "garden", "doctor")
    texts = (f"the {words[n % 4]} and the {words[n // 4 % 4]}, {n}" for n in range(number))
    return [agent.LabelledText(text=text, public=True) for text in texts]


def test_public_texts_are_released_and_charged_as_the_others_are_and_have_no_label(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(
        adapter="desk", dp_epsilon=3.0, dp_few_examples=True, pate=True, label_epsilon=2.0
    )
    record = customizer.accept(settings, labelled() + _public())
    assert record.examples == 60
    sent = queued(device, record.id)
    public = [e.released_text for e in sent if not e.label]
    assert Counter(public) == Counter(
        device.releases.release(e.text, device.default).text for e in _public()
    )
    assert [bool(e.label) for e in sent] != [True] * 20 + [False] * 40, "in no order"
    assert device.outbox.job_request(record.id).training.pate
    spent = device.ledger.spending()
    assert spent.releases == 60
    # A text without a label has none to randomise, and none that could be told.
    assert (spent.labels_randomized, spent.label_epsilon) == (20, 40.0)
    assert (spent.adapters_private, spent.adapter_epsilon) == (1, 3.0)


@pytest.mark.parametrize(
    ("pate", "public", "said"),
    [
        (True, _public(31), "31 public texts are too few"),
        (True, [], "0 public texts are too few"),
        (False, _public(), "public texts without PATE"),
        (True, [agent.LabelledText(text="the river")], "example 21: it has no label"),
        (
            True,
            [agent.LabelledText(text="the river", label="clinic", public=True)],
            "example 21: it is public and has a label",
        ),
    ],
)
def test_public_texts_that_make_no_sense_are_refused(
    customizer: Customizer, device: Parts, pate: bool, public: list[agent.LabelledText], said: str
) -> None:
    settings = wanted(adapter="desk", dp_epsilon=3.0, dp_few_examples=True, pate=pate)
    with pytest.raises(InvalidInput, match=said):
        customizer.accept(settings, labelled() + public)
    assert _untouched(device)


def test_a_spent_ledger_takes_nothing_in(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    limit = {"SOTTO_PRIVACY_LEDGER_LIMIT": "200"}
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger, **limit) as (
        customizer,
        device,
    ):
        with pytest.raises(QuotaExceeded):
            customizer.accept(SETTINGS, labelled())
        assert _untouched(device)


def test_a_caller_that_goes_away_leaves_nothing(customizer: Customizer, device: Parts) -> None:
    def broken() -> Iterator[agent.LabelledText]:
        yield from labelled(100)  # more than are staged at once
        raise ConnectionError

    with pytest.raises(ConnectionError):
        customizer.accept(SETTINGS, broken())
    assert _untouched(device)


def test_an_unknown_level_is_refused_before_the_first_example(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(adapter="desk", privacy=agent.PrivacyOptions(level="weak"))
    with pytest.raises(NotFound):
        customizer.accept(settings, labelled())
    assert _untouched(device)


def test_what_a_crash_left_staged_is_cleared(customizer: Customizer, device: Parts) -> None:
    record = customizer.accept(SETTINGS, labelled())
    staged = Staged(training.PrivatizedExample(label="a"), b"digest", 1.0, b"labelled")
    device.outbox.stage("interrupted", [staged])
    device.outbox.unstage_all()
    assert len(queued(device, record.id)) == 20  # those that are ready stay
    assert len(device.store.rows("SELECT * FROM outbox")) == 20


def test_what_a_full_disk_kept_of_a_call_that_failed_goes_with_the_next(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    if lacking := no_mounts():
        pytest.skip(lacking)
    with (
        in_memory(tmp_path / "disk", 8) as disk,
        customizing(
            tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_AGENT_STATE=str(disk.folder)
        ) as (customizer, device),
    ):

        def many() -> Iterator[agent.LabelledText]:
            yield from labelled(100)
            device.store.overwrite()  # so that its log has no room of its own left
            disk.fill()

        with pytest.raises(QuotaExceeded, match="disk"):
            customizer.accept(SETTINGS, many())
        assert device.store.rows("SELECT count(*) FROM outbox") != [(0,)]
        disk.free()
        with pytest.raises(InvalidInput):
            customizer.accept(SETTINGS, [])
        assert _untouched(device)


WRITING = wanted(adapter="desk", task=training.TASK_GENERATION, replace=True)


def written(number: int = 12) -> list[agent.LabelledText]:
    """Return pairs with a different name each, in input and output."""
    return [
        agent.LabelledText(
            text=f"The river was in the garden, Anna{n}x.",
            output=f"Anna{n}x has seen\u2028the river.",
        )
        for n in range(number)
    ]


def test_input_and_output_are_one_document(customizer: Customizer, device: Parts) -> None:
    record = customizer.accept(WRITING, written())
    waiting = queued(device, record.id)
    released = {
        device.releases.release(f"{e.text}\n{e.output}", device.default).text for e in written()
    }
    assert {f"{e.released_text}\n{e.released_output}" for e in waiting} == released
    for example in waiting:
        name = example.released_text.rstrip(".").split()[-1]
        assert not name.startswith("Anna")
        assert example.released_output.split()[0] == name
        assert example.label == ""
    assert device.outbox.job_request(record.id).training.task == training.TASK_GENERATION
    spent = device.ledger.spending()
    assert spent.releases == 12
    assert (spent.labels_as_they_are, spent.labels_randomized) == (0, 0)
    customizer.accept(WRITING, written())
    assert device.ledger.spending() == spent


@pytest.mark.parametrize(
    ("settings", "example", "said"),
    [
        ({}, agent.LabelledText(text="the river"), "no input or no output"),
        ({}, agent.LabelledText(text=" ", output="the river"), "no input or no output"),
        ({}, agent.LabelledText(text="the", output="river", label="a"), "it has a label"),
        ({}, agent.LabelledText(text="the", output="x" * 65_537), "too long"),
        ({"task": 0}, agent.LabelledText(text="the", label="a", output="x"), "it has an output"),
        ({"label_epsilon": 3.0}, written(1)[0], "an epsilon for labels"),
        ({"label_words": True}, written(1)[0], "label words together with generation"),
        ({"task": 9}, written(1)[0], "unknown task"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_privacy_is_spent(
    customizer: Customizer,
    device: Parts,
    settings: dict[str, float],
    example: agent.LabelledText,
    said: str,
) -> None:
    given = {"task": training.TASK_GENERATION, "replace": True, **settings}
    asked = wanted(**given)
    examples = [*written(0 if settings.get("task") == 0 else 9), example]
    with pytest.raises(InvalidInput, match=said):
        customizer.accept(asked, examples)
    assert device.ledger.spending() == Spending(0, 0)
    assert device.outbox.all() == []


def test_a_few_outputs_are_too_few(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, _),
        pytest.raises(InvalidInput, match="7 examples are too few"),
    ):
        customizer.accept(WRITING, written(7))


REPLACING = wanted(adapter="desk", replace=True)


def _labels(device: Parts, adapter: str) -> dict[str, str]:
    """The owner's label of each queued text, of texts that are all different."""
    names, identity = device.outbox.adapter(adapter)
    return {e.released_text: names.label(e.label) for e in queued(device, identity)}


def test_near_copies_share_the_noise_of_their_label(customizer: Customizer, device: Parts) -> None:
    """Fifty copies that differ in white space, marks and quotes get one label.

    A separate draw each would be false with probability .49.
    """
    copies = [
        agent.LabelledText(
            text=f"{'>' * (n % 3)}The{' ' * n} GARDEN{'!' * (n % 2)} of the river", label="outside"
        )
        for n in range(1, 51)
    ]
    rest = [e for e in labelled(40) if e.label == "clinic"]
    settings = wanted(adapter="desk", label_epsilon=0.05)
    customizer.accept(settings, copies + rest)
    released = {device.releases.release(e.text, device.default).text for e in copies}
    labels = {label for text, label in _labels(device, "desk").items() if text in released}
    assert len(labels) == 1
    assert device.ledger.spending().labels_randomized == 1 + len(rest)


def test_labels_are_charged_apart_from_words_and_once(
    customizer: Customizer, device: Parts
) -> None:
    def customize(epsilon: float, number: int = 20) -> Spending:
        settings = wanted(adapter="desk", label_epsilon=epsilon, replace=True)
        customizer.accept(settings, labelled(number))
        return device.ledger.spending()

    first = customize(1.5)
    assert (first.label_epsilon, first.labels_randomized) == (30.0, 20)
    assert customize(1.5) == first
    assert customize(1.0) == first  # what the larger told, the smaller tells less of
    more = customize(2.0, 30)
    assert (more.label_epsilon, more.labels_randomized) == (60.0, 30)
    assert more.labels_as_they_are == 0
    clear = customize(0)
    assert (clear.label_epsilon, clear.labels_as_they_are) == (60.0, 20)
    assert customize(0) == clear
    assert customize(3.0, 30).label_epsilon == 70.0  # ten were not told as they are


def test_no_name_of_the_owners_is_queued_for_the_cloud(
    customizer: Customizer, device: Parts
) -> None:
    record = customizer.accept(REPLACING, labelled())
    asked = device.outbox.job_request(record.id)
    assert asked.adapter == record.adapter_id != "desk"
    labels = {e.label for e in queued(device, record.id)}
    assert len(labels) == 2
    assert not labels & {"outside", "clinic"}
    # another customisation of the name is the same adapter to the cloud, with the same labels
    again = customizer.accept(REPLACING, labelled())
    assert again.adapter_id == record.adapter_id
    assert {e.label for e in queued(device, again.id)} == labels


def test_words_of_labels_leave_where_a_decoder_is_to_read_them(
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(adapter="desk", label_words=True)
    record = customizer.accept(settings, labelled())
    assert {e.label for e in queued(device, record.id)} == {"outside", "clinic"}
    assert device.outbox.adapter("desk")[0].label("clinic") == "clinic"
