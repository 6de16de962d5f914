"""Identifiers are found whole, and what replaces them depends on their shape alone."""

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core.privacy import surrogates
from sottovoce.core.text import identifiers

ALPHA = 1e-4
"""Significance of each statistical test: a right program fails one run in ten thousand."""


def found(document: str) -> list[str]:
    return [document[start:end] for start, end in identifiers.find(document)]


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
        *("٣", "²", "Ⅷ", "½", "①", "१२३", "𝟘", "㊀"),
    ],
)
def test_finds_an_identifier_whole(identifier: str) -> None:
    assert found(identifier) == [identifier]
    assert found(f"see {identifier}, or ({identifier}).") == [identifier, identifier]


@pytest.mark.parametrize(
    "document",
    [
        *("well-known", "and/or", "e.g. this", "U.S.A.", "Ph.D.", "wait...what", "The end.Next"),
        *("she said: no", "@ # $ %", "AT&T", "_", "o'clock", "C++", "...", "a / b", "我们", "/s"),
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


def test_phone_number_with_brackets_keeps_no_digit_outside() -> None:
    assert found("(555) 010-2233") == ["555", "010-2233"]


def test_unspaced_script_is_not_swallowed_by_a_number() -> None:
    assert found("我有3个") == ["3"]


anything = st.text(st.characters(exclude_categories=()))
dense = st.text(st.sampled_from("aZ09é£٣.@:/-_,#%+( é"))


@given(anything | dense)
def test_spans_are_sorted_apart_and_not_empty(document: str) -> None:
    done = 0
    for start, end in identifiers.find(document):
        assert done <= start < end <= len(document)
        done = end


@given(anything | dense)
def test_no_number_lies_outside_the_spans(document: str) -> None:
    left = list(document)
    for start, end in identifiers.find(document):
        left[start:end] = " " * (end - start)
    assert not identifiers.has_number("".join(left))


# Letters of these alphabets spell no scheme, so both texts below have one shape.
_ALPHABETS = (string.digits + "٣²", "abcdegijklmnoqrstuvxyzéßж", "ABCDEGIJKLMNOQRSTUVXYZÉЖ")


def test_a_number_of_any_kind_makes_no_host() -> None:
    plain, raised = (surrogates.replace(t, np.random.default_rng(1)) for t in (".A0", ".A²"))
    assert plain == raised


@given(st.text(st.sampled_from("".join(_ALPHABETS) + ".@:/-_+(),#%")), st.data())
def test_depends_on_the_shape_alone(text: str, data: st.DataObject) -> None:
    def other(character: str) -> str:
        for alphabet in _ALPHABETS:
            if character in alphabet:
                return str(data.draw(st.sampled_from(alphabet)))
        return character

    twin = "".join(map(other, text))
    first = surrogates.replace(text, np.random.default_rng(1))
    assert surrogates.replace(twin, np.random.default_rng(1)) == first


@given(st.text(st.sampled_from("aZ09é£٣@:/-_,#%+(")), st.integers(0, 2**32))
def test_keeps_the_shape(text: str, seed: int) -> None:
    replaced = surrogates.replace(text, np.random.default_rng(seed))
    assert len(replaced) == len(text)
    for before, after in zip(text, replaced, strict=True):
        if before.isdigit():
            assert after in string.digits
        elif before.isalpha():
            assert after in (string.ascii_uppercase if before.isupper() else string.ascii_lowercase)
        else:
            assert after == before


def test_a_titlecase_letter_becomes_a_capital() -> None:
    assert surrogates.replace("\u01c5", np.random.default_rng(4)) in string.ascii_uppercase


def test_digits_are_uniform_whatever_they_were() -> None:
    random = np.random.default_rng(5)
    for digit in "0379":
        drawn = np.array(list(surrogates.replace(digit * 100_000, random)), int)
        assert chisquare(np.bincount(drawn, minlength=10)).pvalue > ALPHA


def test_letters_are_uniform_whatever_they_were() -> None:
    random = np.random.default_rng(6)
    for letter in "aqzж":
        drawn = np.array([ord(c) - 97 for c in surrogates.replace(letter * 100_000, random)])
        assert chisquare(np.bincount(drawn, minlength=26)).pvalue > ALPHA


def test_top_level_is_drawn_without_a_look_at_the_true_one() -> None:
    for mail in ("a@b.com", "a@b.info"):
        random = np.random.default_rng(7)
        drawn = [surrogates.replace(mail, random).rpartition(".")[2] for _ in range(4_000)]
        counts = [drawn.count(label) for label in surrogates.TOP_LEVELS]
        assert sum(counts) == 4_000
        assert chisquare(counts).pvalue > ALPHA


def test_a_draw_that_equals_the_original_stays() -> None:
    random = np.random.default_rng(8)
    same = sum(surrogates.replace("7", random) == "7" for _ in range(20_000))
    # Binomial(20000, 1/10): 4 standard deviations either side, significance below 1e-4.
    assert abs(same - 2_000) < 4 * (20_000 * 0.09) ** 0.5


def test_uniformity_test_would_catch_a_draw_that_avoids_the_original() -> None:
    random = np.random.default_rng(9)
    drawn = random.integers(10, size=100_000)
    assert chisquare(np.bincount(drawn[drawn != 7], minlength=10)).pvalue < ALPHA


MAIL = re.compile(r"[\w.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.(com|org|net|info)", re.ASCII)
local = st.from_regex(r"[a-z0-9_+]{1,8}(\.[a-z0-9_+]{1,8}){0,2}", fullmatch=True)
host = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,4})?(\.[a-z0-9]{2,8}){0,2}", fullmatch=True)


@given(local, host, st.sampled_from(["de", "museum", "co.uk", "org"]), st.integers(0, 2**32))
def test_a_mail_address_stays_one(local: str, host: str, top: str, seed: int) -> None:
    replaced = surrogates.replace(f"{local}@{host}.{top}", np.random.default_rng(seed))
    assert MAIL.fullmatch(replaced)


@pytest.mark.parametrize("scheme", ["http://", "https://", "www.", "https://www.", "ftp://"])
def test_a_link_keeps_its_scheme_only(scheme: str) -> None:
    random = np.random.default_rng(10)
    replaced = surrogates.replace(f"{scheme}secret-name.example.de:80/who/jo?q=1", random)
    assert replaced.startswith(scheme)
    host, _, path = replaced.removeprefix(scheme).partition("/")
    assert re.fullmatch(r"[a-z]{6}-[a-z]{4}\.[a-z]{7}\.(com|org|net|info):\d\d", host)
    assert re.fullmatch(r"[a-z]{3}/[a-z]{2}\?[a-z]=\d", path)
    assert not {"secret", "name", "example", "who"} & set(re.split(r"\W", replaced))
