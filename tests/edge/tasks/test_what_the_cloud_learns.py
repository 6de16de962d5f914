"""Customising tells the cloud released texts, and of all else as little as training needs."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from sottovoce.core.privacy.votes import keep_probability
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import customizing, labelled, queued, wanted

SETTINGS = wanted(adapter="desk", replace=True)


def _labels(device: Parts, adapter: str) -> dict[str, str]:
    """The owner's label of each queued text, of texts that are all different."""
    names, identity = device.outbox.adapter(adapter)
    return {e.released_text: names.label(e.label) for e in queued(device, identity)}


def _spelt(number: int) -> list[agent.LabelledText]:
    """Different texts whose release shows which is which."""
    return [
        agent.LabelledText(text=f"The garden {n:012}", label=("outside", "clinic")[n % 2])
        for n in range(number)
    ]


def test_labels_are_randomised_once_and_for_all(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    """The share of true labels lies within 4.9 standard deviations (two-sided, alpha = 1e-6)."""
    number, epsilon = 400, 1.0
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
        released = {
            device.releases.release(e.text, device.default).text: e.label for e in _spelt(number)
        }
        assert len(released) == number
        for adapter in ("one", "two"):
            settings = wanted(adapter=adapter, label_epsilon=epsilon)
            customizer.accept(settings, _spelt(number))
        sent = _labels(device, "one")
        assert sent.keys() == released.keys()
        assert _labels(device, "two") == sent  # asking again averages nothing out
        kept = sum(sent[text] == label for text, label in released.items())
        keep = keep_probability(epsilon, 2)
        spread = math.sqrt(len(sent) * keep * (1 - keep))
        assert abs(kept - len(sent) * keep) < 4.9 * spread
        on_disk = b"".join(p.read_bytes() for p in device.store.folder.iterdir())
        assert b"outside" not in on_disk
        settings = wanted(adapter="three", label_epsilon=0.5)
        customizer.accept(settings, _spelt(number))
        assert _labels(device, "three") != sent


def test_near_copies_share_the_noise_of_their_label(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    """Fifty copies that differ in white space, marks and signs of quoting get one label, where each
    of its own would be false by a chance of .49."""
    copies = [
        agent.LabelledText(
            text=f"{'>' * (n % 3)}The{' ' * n} GARDEN{'!' * (n % 2)} of the river", label="outside"
        )
        for n in range(1, 51)
    ]
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
        rest = [e for e in labelled(40) if e.label == "clinic"]
        settings = wanted(adapter="desk", label_epsilon=0.05)
        customizer.accept(settings, copies + rest)
        released = {device.releases.release(e.text, device.default).text for e in copies}
        labels = {label for text, label in _labels(device, "desk").items() if text in released}
        assert len(labels) == 1
        assert device.ledger.spending().labels_randomized == 1 + len(rest)


def test_labels_are_charged_apart_from_words_and_once(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    def customize(epsilon: float, number: int = 20) -> Spending:
        settings = wanted(adapter="desk", label_epsilon=epsilon, replace=True)
        customizer.accept(settings, labelled(number))
        return device.ledger.spending()

    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
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
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
        record = customizer.accept(SETTINGS, labelled())
        asked = device.outbox.job_request(record.id)
        assert asked.adapter == record.adapter_id != "desk"
        labels = {e.label for e in queued(device, record.id)}
        assert len(labels) == 2
        assert not labels & {"outside", "clinic"}
        # another customisation of the name is the same adapter to the cloud, with the same labels
        again = customizer.accept(SETTINGS, labelled())
        assert again.adapter_id == record.adapter_id
        assert {e.label for e in queued(device, again.id)} == labels


def test_words_of_labels_leave_where_a_decoder_is_to_read_them(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
        settings = wanted(adapter="desk", label_words=True)
        record = customizer.accept(settings, labelled())
        assert {e.label for e in queued(device, record.id)} == {"outside", "clinic"}
        assert device.outbox.adapter("desk")[0].label("clinic") == "clinic"


def test_the_place_of_an_example_tells_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    """The correlation of places in the table and in the upload: normal with a deviation of
    1/sqrt(399), within 4.9 of them (two-sided, alpha = 1e-6)."""
    number = 400
    with customizing(tmp_path, small_bundle_folder, lexicon_tagger) as (customizer, device):
        examples = _spelt(number)
        place = {
            device.releases.release(e.text, device.default).text: n for n, e in enumerate(examples)
        }
        orders = []
        for adapter in ("one", "two"):
            settings = wanted(adapter=adapter)
            record = customizer.accept(settings, examples)
            orders.append([place[e.released_text] for e in queued(device, record.id)])
            assert [place[e.released_text] for e in queued(device, record.id)] == orders[-1]
        table = sorted(
            place[device.releases.release(e.text, device.default).text] for e in examples
        )
        for one, other in ((table, orders[0]), (table, orders[1]), orders):
            assert sorted(one) == sorted(other) == table
            found = statistics.correlation(one, other)
            assert abs(found) < 4.9 / math.sqrt(number - 1)
