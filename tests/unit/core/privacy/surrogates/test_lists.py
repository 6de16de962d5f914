"""The public lists hold what their card says, and nothing that should not come out of a draw."""

import csv
import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from sottovoce.core.bundle.word_list import WordList
from sottovoce.core.privacy.surrogates import names, word_groups, words_of
from sottovoce.core.privacy.surrogates.person_surrogates import COINED
from sottovoce.core.text.vocabulary import Vocabulary

ROOT = Path(__file__).parents[5]
LISTS = ROOT / "core/sottovoce/core/privacy/surrogates/lists"
NAMES = sorted(path.stem for path in LISTS.glob("*.txt"))
IN_CONTEXT = ("women", "men", "surnames", "places")
"""The lists of policies that read the context."""
FOR_DOCUMENTS = [name for name in NAMES if name not in IN_CONTEXT[:3]]
PEOPLE_AND_PLACES = (*IN_CONTEXT, "given", "family")
ORIGINS = [row.split("\t") for row in (LISTS / "origins.tsv").read_text("ascii").splitlines()]


def facts() -> dict[str, str]:
    rows = (ROOT / "models/facts/words.tsv").read_text("ascii").splitlines()
    return dict(row.split("\t", 1) for row in rows[1:])


def commonest(n: int) -> set[str]:
    counts: Counter[str] = Counter()
    with gzip.open(ROOT / "models/frequencies/words.tsv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["clitic"] == "0":
                counts[row["word"]] += int(row["count"])
    return {word for word, _ in counts.most_common(n)}


@pytest.mark.parametrize("name", NAMES)
def test_a_list_is_sorted_small_ascii_letters_each_word_once(name: str) -> None:
    words = words_of(name)
    assert list(words) == sorted(set(words))
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)


@pytest.mark.parametrize("lists", [FOR_DOCUMENTS, IN_CONTEXT])
def test_no_word_is_in_two_lists_of_one_policy(lists: Sequence[str]) -> None:
    everything = [word for name in lists for word in words_of(name)]
    assert len(everything) == len(set(everything))


def test_no_name_that_is_drawn_is_a_word() -> None:
    marks = Vocabulary.shipped().marks
    names = {word for name in PEOPLE_AND_PLACES for word in words_of(name)} | {*COINED}
    assert not [name for name in names if marks(name)]
    drawn = {word for name in IN_CONTEXT[:3] for word in words_of(name)} | {*COINED}
    assert not [name for name in drawn if marks(name + "s") or len(name) < 4]


def test_many_names_are_left_to_draw_from() -> None:
    assert min(len(words_of("women")), len(words_of("men"))) >= 1_000
    assert len(words_of("surnames")) >= 2_000
    assert len({*COINED}) == len(COINED) >= 300
    assert not {*COINED} & {word for name in NAMES for word in words_of(name)}


def test_a_drawn_given_name_has_its_gender() -> None:
    assert {names.gender(word) for word in words_of("women")} == {"f"}
    assert {names.gender(word) for word in words_of("men")} == {"m"}
    assert [names.gender(word) for word in ("nadia", "tom", "kerry", "quarnivel", "smith")] == [
        *("f", "m", "b", "", ""),
    ]


def test_known_names_are_sorted_each_once_and_none_is_drawn_for_a_person() -> None:
    header, *rows = (LISTS / "known_names.tsv").read_text("ascii").splitlines()
    known = [row.split("\t") for row in rows]
    assert header == "name\tis"
    assert [name for name, _ in known] == sorted({name for name, _ in known})
    assert {what for _, what in known} == {"f", "m", "b", "l"}
    assert not {name for name, _ in known} & {*words_of("women"), *words_of("men")}


def test_none_is_common_and_none_states_a_fact() -> None:
    drawn = {word for name in NAMES for word in words_of(name)}
    assert not drawn & commonest(200)
    assert not drawn & facts().keys()


def test_the_card_counts_right() -> None:
    card = (LISTS / "README.md").read_text("utf-8")
    for name in NAMES:
        assert f"| `{name}.txt` | {len(words_of(name))} |" in card
    known = (LISTS / "known_names.tsv").read_text("ascii").splitlines()
    assert f"| `known_names.tsv` | {len(known) - 1} |" in card
    _, *others = (LISTS / "names_by_script.tsv").read_text("utf-8").splitlines()
    assert others == sorted({*others})
    assert f"| `names_by_script.tsv` | {len(others)} |" in card
    assert f"| `origins.tsv` | {len(ORIGINS) - 1} |" in card


def test_the_default_vocabulary_holds_every_word(bundle_folder: Path) -> None:
    known = set(WordList(bundle_folder / "words.txt"))
    assert not {word for name in FOR_DOCUMENTS for word in words_of(name)} - known
    assert not {word for word, _, use in ORIGINS[1:] if use != "from"} - known


def test_every_origin_of_the_public_facts_is_known_to_the_device() -> None:
    kinds = ("nationality", "religion", "ethnicity")
    assert {word for word, kind in facts().items() if kind in kinds} == word_groups.origins()


def test_the_list_of_origins_is_sorted_and_its_uses_are_known() -> None:
    header, *rows = ORIGINS
    assert header == ["word", "group", "use"]
    assert rows == sorted(rows)
    assert {use for _, _, use in rows} == {"from", "to", "both"}
    assert len({word for word, _, use in rows if use != "to"}) == len(word_groups.origins())


def test_number_words_are_no_facts() -> None:
    assert not word_groups._GROUPS.keys() & facts().keys()


def test_facts_are_sorted_single_words_of_known_kinds() -> None:
    rows = (ROOT / "models/facts/words.tsv").read_text("ascii").splitlines()
    assert rows[0] == "word\tkind"
    assert rows[1:] == sorted(rows[1:])
    assert len(facts()) == len(rows) - 1
    assert all(word.isalpha() and word.islower() for word in facts())
    card = (ROOT / "models/facts/README.md").read_text("utf-8")
    for kind, n in Counter(facts().values()).items():
        assert f"| `{kind}` | {n} |" in card


def test_every_number_word_of_the_public_list_is_known_to_the_device() -> None:
    rows = (ROOT / "models/facts/numbers.tsv").read_text("ascii").splitlines()[1:]
    assert {row.split("\t")[0] for row in rows} <= word_groups._GROUPS.keys()
