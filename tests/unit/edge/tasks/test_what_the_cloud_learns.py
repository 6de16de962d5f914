"""Customising tells the cloud released texts, and of all else as little as training needs."""

from __future__ import annotations

from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.tasks.customize import Customizer
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import labelled, queued, wanted

SETTINGS = wanted(adapter="desk", replace=True)


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
    customizer: Customizer, device: Parts
) -> None:
    settings = wanted(adapter="desk", label_words=True)
    record = customizer.accept(settings, labelled())
    assert {e.label for e in queued(device, record.id)} == {"outside", "clinic"}
    assert device.outbox.adapter("desk")[0].label("clinic") == "clinic"
