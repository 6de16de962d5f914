"""Identifiers are found whole, and words are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.text import words


def found(document: str) -> list[str]:
    return [document[start:end] for start, end in words.find_identifiers(document)]


@pytest.mark.parametrize(
    "identifier",
    [
        *("jo.ann+tag@mail.example.co.uk", "a@b", "@jo_ann", "@jo", "mailto:jo@example.org"),
        *("https://example.org/a?b=c&d=(e", "ftp://h/x", "www.example.org", "HTTP://EXAMPLE.ORG"),
        *("example.org", "example.org/path", "report.pdf", "EXAMPLE.ORG", "ssh://host"),
        *("http://user:pass@example.org:8080/x#y", "//cdn1", "http://[::1]/x"),
        *("AX-99231", "555-0142", "+44", "12:30", "3.5%", "10th", "£1,200.50", "5€", "$5", "x=3"),
        *("2020-01-02", "12/05/2020", "DE89370400440532013000", "192.168.0.1", "fe80::1ff:fe23"),
        *("aa:bb:0c:dd:ee:ff", "d41d8cd98f00b204", "covid-19", "v1.2.3-rc4", "tag9", "mp3"),
        *("snake_case", "/home/jo/notes", "~/notes", "C:\\Users\\jo"),
        *("password=sunshine", "ABCD-EFGH-IJKL", "abDEf/ghIJkl/mnOPqrs", "abDEf+ghIJkl+mnOPqrst"),
        *("٣", "²", "Ⅷ", "½", "①", "१२३", "𝟘", "㊀"),
    ],
)
def test_finds_an_identifier_whole(identifier: str) -> None:
    assert found(identifier) == [identifier]
    assert found(f"see {identifier}, or ({identifier}).") == [identifier, identifier]


@pytest.mark.parametrize(
    "document",
    [
        *("well-known", "and/or", "e.g. this", "U.S.", "Ph.D.", "wait...what", "The end.Next"),
        *("she said: no", "@ # $ %", "AT&T", "_", "o'clock", "C++", "...", "a / b", "我们", "/s"),
        *(
            "a = b",
            "==",
            "MADE-IN",
            "ABCD-EFG-HIJK",
            "his/her/their/whatever",
            "aB/cD+eF",
            "abDEf/ghIJkl/mnOPqr",
        ),
    ],
)
def test_leaves_words_alone(document: str) -> None:
    assert found(document) == []


@pytest.mark.parametrize(
    ("document", "identifier"),
    [("#42", "42"), ("-5", "5"), ("^3", "3"), ("12:", "12"), ("jo_ann@", "jo_ann"), ("7/", "7")],
)
def test_signs_at_its_ends_are_no_part_of_it(document: str, identifier: str) -> None:
    assert found(document) == [identifier]


def test_of_two_words_glued_by_a_full_stop_the_second_decides_nothing_by_its_length() -> None:
    assert found("at the end.a lamp") == ["end.a"]
    assert found("at the end.the lamp") == ["end.the"]
    assert found("at the end.A lamp") == found("at the end.The lamp") == []


def test_phone_number_with_brackets_keeps_no_digit_outside() -> None:
    assert found("(555) 010-2233") == ["555", "010-2233"]


def test_unspaced_script_is_not_swallowed_by_a_number() -> None:
    assert found("我有3个") == ["3"]


def test_a_part_of_a_document_is_searched_alone() -> None:
    document = "a1 b2 www.x.org/y1 c3 M-I-A"
    for start, end in ((3, 5), (3, 11), (6, 18), (19, 24)):
        expected = [(start + a, start + b) for a, b in words.find_identifiers(document[start:end])]
        assert words.find_identifiers(document, start, end) == expected


anything = st.text(st.characters(exclude_categories=()))
dense = st.text(st.sampled_from("aZ09é£٣.@:/-_,#%+( é"))


@given(anything | dense)
def test_spans_are_sorted_apart_and_not_empty(document: str) -> None:
    done = 0
    for start, end in words.find_identifiers(document):
        assert done <= start < end <= len(document)
        done = end


@given(anything | dense)
def test_no_number_lies_outside_the_spans(document: str) -> None:
    left = list(document)
    for start, end in words.find_identifiers(document):
        left[start:end] = " " * (end - start)
    assert not words.has_number("".join(left))


@pytest.mark.parametrize(
    ("document", "identifiers"),
    [
        ("M-I-A-5", ["M-I-A-5"]),
        ("a1 M-I-A-5", ["a1", "M-I-A-5"]),
        ("a1 b2 M-I-A-5", ["a1", "b2", "M-I-A-5"]),
        ("55=M-I-A", ["55=M-I-A"]),
        ("5=a b c=5", ["5=a", "b", "c=5"]),
        ("1 2 c d e", ["1 2 c d e"]),
    ],
)
def test_a_spelled_name_and_the_identifiers_around_it_are_each_found_once(
    document: str, identifiers: list[str]
) -> None:
    assert found(document) == identifiers
