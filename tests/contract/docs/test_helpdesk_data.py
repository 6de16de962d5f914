"""The helpdesk demo data keeps the promises of its README."""

import re
from collections import Counter
from itertools import combinations

import pytest

from tests.support.paths import HELPDESK

LABELS = {"plumbing", "electrical", "appliance", "pest_control", "cleaning", "billing"}
SPLITS = {"train": 480, "test": 120}

# Seven or more digits, however grouped, could ring somewhere. Account and order numbers in the
# data are shorter on purpose, so that this rule needs no exceptions.
PHONE_LIKE = re.compile(r"(?<![\w.,])[+(]?\d(?:(?:\) |[ .()-])?\d){6,}")
# Ranges set aside for fiction: North America's 555-0100..0199 and Ofcom's mobile 07700 900000..999.
FICTIONAL = re.compile(r"555-01\d\d|\+44 7700 900\d{3}")
EMAIL = re.compile(r"\S+@\S+")
# RFC 2606 keeps these three domains free for examples.
EXAMPLE_EMAIL = re.compile(r"[\w.]+@example\.(?:com|net|org)[.,?!]?")


def rows(split: str) -> list[tuple[str, str]]:
    """(text, label) of each message, in file order."""
    lines = (HELPDESK / f"{split}.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    return [(text, label) for text, label in (line.split("\t") for line in lines)]


def texts() -> list[str]:
    """Every message of both splits."""
    return [text for split in SPLITS for text, _ in rows(split)]


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9']+", text.lower()))


def unassigned_numbers(text: str) -> list[str]:
    """Numbers that could be dialled and are not in a range reserved for fiction."""
    return [n for n in PHONE_LIKE.findall(text) if not FICTIONAL.fullmatch(n)]


@pytest.mark.parametrize("split", SPLITS)
def test_file_is_plain_two_column_tsv(split: str) -> None:
    raw = (HELPDESK / f"{split}.tsv").read_bytes()
    assert raw.startswith(b"text\tlabel\n")
    assert raw.endswith(b"\n")
    assert b"\r" not in raw
    assert b'"' not in raw
    for line in raw.decode("utf-8").split("\n")[1:-1]:
        assert line.count("\t") == 1, line
        assert all(field and field == field.strip() for field in line.split("\t")), line


@pytest.mark.parametrize(("split", "least"), SPLITS.items())
def test_labels_are_the_six_and_balanced(split: str, least: int) -> None:
    counts = Counter(label for _, label in rows(split))
    assert set(counts) == LABELS
    assert counts.total() >= least
    assert max(counts.values()) <= 1.1 * min(counts.values())


def test_no_two_messages_are_near_duplicates() -> None:
    bags = [(words(text), text) for text in texts()]
    close = [
        (one, other)
        for (a, one), (b, other) in combinations(bags, 2)
        if len(a & b) > 0.6 * len(a | b)
    ]
    assert close == []


def test_telephone_numbers_are_fictional() -> None:
    assert {text: n for text in texts() if (n := unassigned_numbers(text))} == {}


def test_mails_are_at_example_domains() -> None:
    mails = [mail for text in texts() for mail in EMAIL.findall(text)]
    assert mails, "the demo needs addresses to protect"
    assert [mail for mail in mails if not EXAMPLE_EMAIL.fullmatch(mail)] == []


@pytest.mark.parametrize("split", SPLITS)
def test_readme_statistics_are_current(split: str) -> None:
    messages = [text for text, _ in rows(split)]
    lengths = sorted(len(text.split()) for text in messages)
    cells = [
        f"`{split}.tsv`",
        len(messages),
        len(messages) // len(LABELS),
        f"{lengths[0]} / {lengths[len(lengths) // 2]} / {lengths[-1]}",
        sum(bool(FICTIONAL.search(text)) for text in messages),
        sum(bool(EMAIL.search(text)) for text in messages),
    ]
    row = "| " + " | ".join(map(str, cells)) + " |"
    assert row in (HELPDESK / "README.md").read_text(encoding="utf-8"), f"README needs: {row}"
