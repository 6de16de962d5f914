"""Each source's labels are kept, and unlabelled words stay open."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.text.names import KINDS
from sottovoce.models.corpus import TAG_ID, Sentence
from sottovoce.models.names_data import (
    ANY,
    NONE,
    Lists,
    Marked,
    Mentions,
    changed,
    fakers_lists,
    fakers_names_in_scripts,
    made_up,
    read_treebank,
    read_uner,
    read_wnut,
)

PERSON, PLACE, ORGANISATION, OTHER = (1 << KINDS.index(kind) for kind in KINDS[1:])
NAME = PERSON | PLACE | ORGANISATION | OTHER


def told(sentence: Marked) -> list[tuple[str, int]]:
    return [(w.text, a) for w, a in zip(sentence.words, sentence.allowed, strict=True)]


def tagged(text: str, document: str = "d") -> Sentence:
    pairs = [token.rsplit("/", 1) for token in text.split()]
    return Sentence(
        tuple(word for word, _ in pairs), tuple(1 << TAG_ID[tag] for _, tag in pairs), document
    )


def jsonl(path: Path, *entries: tuple[str, str]) -> Path:
    lines = [json.dumps({"tokens": t.split(), "ner_tags": n.split()}) for t, n in entries]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def conllu(path: Path, *sentences: Sentence) -> Path:
    tags = {1 << number: tag for tag, number in TAG_ID.items()}
    lines = []
    for sentence in sentences:
        lines.append(f"# newdoc id = {sentence.document}")
        for number, (word, tag) in enumerate(zip(sentence.words, sentence.allowed, strict=True), 1):
            lines.append(f"{number}\t{word}\t{word}\t{tags[tag]}\t_\t_\t0\t_\t_\t_")
        lines.append("")
    path.write_text("\n".join([*lines, ""]), "utf-8")
    return path


def test_a_proper_noun_of_a_treebank_may_be_any_name() -> None:
    (found,) = read_treebank([tagged("Rich/PROPN met/VERB me/PRON on/ADP Monday/PROPN ./PUNCT")])
    assert told(found) == [
        *(("Rich", NAME), ("met", NONE), ("me", NONE), ("on", NONE)),
        *(("Monday", OTHER), (".", ANY)),
    ]


def test_words_are_cut_as_on_the_device_and_numbers_left_open() -> None:
    (found,) = read_treebank([tagged("Smith-Jones/PROPN 's/PART u2/PROPN xx/X")])
    assert told(found) == [
        *(("Smith", NAME), ("-", ANY), ("Jones", NAME)),
        *(("'s", NONE), ("u2", ANY), ("xx", ANY)),
    ]


def test_universal_ner_gives_kinds_and_the_treebank_the_other_names(tmp_path: Path) -> None:
    first = tagged("The/DET Bank/PROPN of/ADP Rome/PROPN hired/VERB Rose/PROPN", "b")
    second = tagged("iPhones/PROPN rock/VERB", "a")
    path = jsonl(
        tmp_path / "dev.jsonl.gz",
        (" ".join(first.words), "O B-ORG I-ORG I-ORG O B-PER"),
        (" ".join(second.words), "O O"),
        ("nobody knows this", "O O O"),
    )
    found = read_uner(path, conllu(tmp_path / "dev.conllu", second, first))
    assert [sentence.document for sentence in found] == ["a", "b"]
    assert told(found[0]) == [("iPhones", OTHER), ("rock", NONE)]
    assert told(found[1]) == [
        *(("The", NONE), ("Bank", ORGANISATION), ("of", ANY), ("Rome", ORGANISATION)),
        *(("hired", NONE), ("Rose", PERSON)),
    ]
    assert found[1].spans == ((1, 4, "ORGANISATION"), (5, 6, "PERSON"))


def test_wnut_gives_kinds(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "train.jsonl.gz", ("i saw Up in hull", "O O B-creative-work O B-location")
    )
    (found,) = read_wnut(path)
    assert [a for _, a in told(found)] == [NONE, NONE, OTHER, NONE, PLACE]


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"train\.jsonl"):
        read_wnut(tmp_path / "train.jsonl.gz")


@pytest.fixture
def mentions() -> Mentions:
    lists = Lists(("Anna",), ("Marsh",), ("Rome",), ("Freedonia",), ("Rue Longue",), ("Acme",))
    return Mentions(lists, "anna".__eq__, ["river"], np.random.default_rng(1))


def test_made_up_sentences_are_marked_where_the_names_were_put(mentions: Mentions) -> None:
    marked = {word: set[int]() for word in ("Anna", "Marsh", "Freedonia", "lives")}
    for _ in range(2_000):
        for word, allowed in told(made_up(mentions, "")):
            if word in marked:
                marked[word].add(allowed)
    assert marked["lives"] == {NONE}
    assert PERSON in marked["Anna"] <= {PERSON, PLACE, ORGANISATION}
    assert PLACE in marked["Freedonia"] <= {PLACE, ORGANISATION}


def test_another_name_of_its_kind_takes_the_place_of_one_whose_ends_are_known() -> None:
    (sentence,) = read_treebank([tagged("Dear/ADJ Rich/PROPN Young/PROPN ,/PUNCT")])
    sentence = Marked(sentence.words, sentence.allowed, "d", ((1, 3, "PERSON"),))
    random = np.random.default_rng(1)
    found = [changed(sentence, random, lambda kind: f"Anna {kind}") for _ in range(200)]
    renamed = [told(each) for each in found if each.words[2].text.lower() == "person"]
    assert 40 < len(renamed) < 120  # .4 of 200
    for each in renamed:
        assert [allowed for _, allowed in each][:3] == [NONE, PERSON, PERSON]


def test_some_write_small_and_some_large_and_some_no_full_stop() -> None:
    (sentence,) = read_treebank([tagged("We/PRON met/VERB Rich/PROPN ./PUNCT")])
    random = np.random.default_rng(1)
    texts = [" ".join(w.text for w in changed(sentence, random).words) for _ in range(500)]
    assert {"we met rich .", "WE MET RICH .", "We Met Rich .", "We met Rich"} <= set(texts)
    assert texts.count("We met Rich .") > 250


LISTS = Lists(
    first=("Anna", "Rose"),
    last=("Marsh", "Young"),
    cities=("Lakeville",),
    countries=("Freedonia",),
    streets=("Rue Longue",),
    firms=("Acme",) * 500,
)


def made_mentions(seed: int = 1, lists: Lists = LISTS) -> Mentions:
    ordinary = {"rose", "young", "long"}.__contains__
    return Mentions(lists, ordinary, ["river", "blue"], np.random.default_rng(seed))


def test_every_template_can_be_filled_and_every_kind_is_named() -> None:
    made = made_mentions()
    kinds = set()
    for _ in range(3_000):
        pieces = made.sentence()
        text = "".join(piece for piece, _ in pieces)
        assert "{" not in text
        assert "  " not in text.replace(", ", " ")
        kinds |= {kind for piece, kind in pieces if piece}
    assert kinds == {*KINDS, "?"}


def test_names_come_from_the_lists() -> None:
    made = made_mentions()
    people = {made.draw("person") for _ in range(300)}
    assert {"Anna", "Rose", "Marsh", "Young", "Anna Young"} <= people
    assert {made.draw("place") for _ in range(300)} >= {"Freedonia", "Rue Longue"}
    assert "Acme" in {made.draw("org") for _ in range(300)}


def test_half_of_the_names_are_ordinary_words() -> None:
    lists = Lists(("Rose", *(f"Anna{i}" for i in range(99))), *[("Long",)] * 5)
    made = made_mentions(2, lists)
    pieces = [piece for _ in range(3_000) for piece in made.sentence()]
    alone = [text for text, kind in pieces if kind == "PERSON" and text in lists.first]
    # Half of them and one in a hundred of the rest: .505; 5 standard errors either side.
    assert len(alone) > 500
    assert abs(alone.count("Rose") / len(alone) - 0.505) < 5 * 0.5 / len(alone) ** 0.5


def test_the_same_seed_makes_the_same_sentences() -> None:
    one, other, third = made_mentions(3), made_mentions(3), made_mentions(4)
    first = [one.sentence() for _ in range(20)]
    assert first == [other.sentence() for _ in range(20)]
    assert first != [third.sentence() for _ in range(20)]


def test_lists_come_from_faker_or_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faker", None)
    with pytest.raises(NotReady, match="Faker") as raised:
        fakers_lists()
    assert "pip install faker" in str(raised.value.fix)


def test_fakers_lists_name_the_world() -> None:
    pytest.importorskip("faker", reason="only training needs its lists")
    lists = fakers_lists()
    assert {"Germany", "Brazil"} <= {*lists.countries}
    assert len(lists.first) > 5_000
    assert len(lists.last) > 5_000
    assert "Smith" in lists.last
    assert all(name == name.strip() for name in (*lists.first, *lists.cities))


def test_the_device_ships_fakers_names_in_other_scripts() -> None:
    pytest.importorskip("faker", reason="only making the list needs it")
    file = resources.files("sottovoce.core.privacy.surrogates") / "lists" / "names_by_script.tsv"
    header, *shipped = file.read_text("utf-8").splitlines()
    assert header == "name"
    assert shipped == [*fakers_names_in_scripts()]


def test_fakers_lists_have_one_order_in_every_process(tmp_path: Path) -> None:
    for name in ("person", "address", "company"):
        folder = tmp_path / "faker" / "providers" / name / "xx"
        folder.mkdir(parents=True)
        names = {"Aalborg", "Bergen", "Cork", "Dover", "Essen", "Fes", "Gdansk", "Hull"}
        (folder / "__init__.py").write_text(f"class Provider:\n    cities = {names!r}\n")
        for package in (folder.parent, tmp_path / "faker" / "providers", tmp_path / "faker"):
            (package / "__init__.py").touch()
    code = "from sottovoce.models.names_data import fakers_lists; print(fakers_lists().cities)"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
