"""The cloud sees ids instead of names, and owners read names instead of ids."""

from __future__ import annotations

import pytest

from sottovoce.core.errors import NotFound, SottovoceError
from sottovoce.core.rpc.limits import NAME
from sottovoce.edge.state.device_key import Seal
from sottovoce.edge.state.outbox import OpaqueIds, adapter_id, label_ids

SEAL = Seal(bytes(32))
OTHER = Seal(bytes([1] * 32))


def test_ids_are_names_the_cloud_takes_all_of_one_length() -> None:
    ids = {adapter_id(SEAL, f"adapter-{n}") for n in range(500)}
    assert len(ids) == 500
    assert {len(identity) for identity in ids} == {26}
    assert all(NAME.fullmatch(identity) for identity in ids)
    labels = label_ids(SEAL, "x", [f"label {n}" for n in range(1_000)])
    assert len(set(labels.values())) == 1_000
    assert {len(label) for label in labels.values()} == {16}


def test_the_same_name_is_the_same_id_on_one_device_alone() -> None:
    assert adapter_id(SEAL, "hiv-clinic") == adapter_id(SEAL, "hiv-clinic")
    assert adapter_id(SEAL, "hiv-clinic") != adapter_id(OTHER, "hiv-clinic")
    assert adapter_id(SEAL, "hiv-clinic") != adapter_id(SEAL, "hiv-clinic2")


def test_two_adapters_do_not_show_that_they_share_a_label() -> None:
    one, other = (label_ids(SEAL, adapter, ["positive"])["positive"] for adapter in "ab")
    assert one != other
    assert one != label_ids(OTHER, "a", ["positive"])["positive"]


def test_what_the_cloud_says_is_read_with_the_owners_names() -> None:
    ids = label_ids(SEAL, "x", ["sick", "well"])
    names = OpaqueIds("clinic", adapter_id(SEAL, "clinic"), {ids[n]: n for n in ids})
    said = f"label {ids['sick']!r} of {names.adapter_id} occurs once; see abcdefgh"
    assert names.reveal(said) == "label 'sick' of clinic occurs once; see abcdefgh"
    error = NotFound(said, fix=f"drop {ids['well']}", subject=names.adapter_id)
    revealed = names.revealed(error)
    assert type(revealed) is NotFound
    assert (revealed.fix, revealed.subject) == ("drop well", "clinic")
    assert "'sick' of clinic" in revealed.problem


def test_labels_are_turned_back_and_a_strange_one_is_no_answer() -> None:
    ids = label_ids(SEAL, "x", ["sick", "well"])
    names = OpaqueIds("clinic", "x", {ids[n]: n for n in ids})
    assert names.label(ids["sick"]) == "sick"
    for strange in ("sick", "", "x" * 16):
        with pytest.raises(SottovoceError, match="does not have"):
            names.label(strange)


def test_an_adapter_without_other_names_answers_with_its_own() -> None:
    assert OpaqueIds("id:desk", "desk", {}).label("wet") == "wet"
