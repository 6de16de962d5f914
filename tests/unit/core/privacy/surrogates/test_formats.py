"""An identifier's format is read off its outer form, and no digit decides anything."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.privacy.surrogates import identifiers

FORMATS = {
    "web address": "https://e.org/a?b=c ftp://h/x www.e.org HTTP://E.ORG ssh://h s3://bucket/key",
    "mail address": "jo.ann+tag@mail.example.co.uk a@b mailto:jo@example.org jo@8.8.8.8",
    "handle": "@jo @jo_ann9",
    "host": "example.org mail.example.org example.org/path example.co.uk:8080/x?y EXAMPLE.ORG",
    "file": "report.pdf my-scan2.JPG /home/jo/notes.txt C:\\x\\y.doc",
    "date": "2020-01-02 12/05/2020 1.2.20 2020/1/2 2020-01-02T10:00 2020-01-02T10:00:00.5Z "
    "2020-01-02T10:00+01:00",
    "named date": "12-Mar-2020 3may 4June2021 JAN-12 may/99",
    "time": "12:30 1:05 23:59:59 12:30:01.5 5pm 12PM 10:30am 9:05p.m.",
    "ordinal": "1st 22nd 103rd 10th 11st",
    "decade": "90s 1990s 90's",
    "ip address": "192.168.0.1 10.0.0.0/8 127.0.0.1:8080 ١٢٧.0.0.1",
    "ip address 6": "fe80::1ff:fe23 ::1 2001:DB8::/32 1:2:3:4:5:6:7:8",
    "hardware address": "aa:bb:0c:dd:ee:ff AA-BB-0C-DD-EE-FF 00:00:00:00:00:00",
    "amount": "7 42 1987 3.5% £1,200.50 5€ 1.200.000 ½ 20° 0.0001 $1,000,000 -5 123456",
    "telephone": "+447700900123 +44 07700900123 (555)010-2233 555-0142 123-45-6789 1234567 +1",
    "card": "4111111111111111 4111-1111-1111-1111 371449635398431 6011000990139424000",
    "bank account": "DE89370400440532013000 GB29NWBK60161331926819",
    "hexadecimal": "d41d8cd98f00b204 D41D8CD98F00B204 123e4567-e89b-12d3-a456-426614174000",
    "code": "AX-99231 hunter2 covid-19 v1.2.3-rc4 sk-abcDEF123 x=3 /home/jo snake_case aB0",
}


@pytest.mark.parametrize(
    ("text", "sort"), [(text, sort) for sort, texts in FORMATS.items() for text in texts.split()]
)
def test_is_read_as(text: str, sort: str) -> None:
    assert identifiers.shape(text).sort == sort


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        *(
            ("https://e.org", "https://"),
            ("WWW.e.org/x", "www. path"),
            ("john://x#y", "https:// path"),
        ),
        *(
            ("a@b", ""),
            ("mailto:a@b.org", "mailto:"),
            ("@jo", ""),
            ("e.org", ""),
            ("e.org/x", "path"),
        ),
        *(("a.pdf", "pdf"), ("a.PDF", "PDF"), ("10:30am", "99:99xm"), ("9P.M.", "9X.M.")),
        *(("12-Mar-2020", "capitalised|99-m-9999"), ("3MAY", "upper|9m"), ("4june", "lower|9M")),
        *(("22nd", "99"), ("90's", "99"), ("10.0.0.0/8:80", "/9:99"), ("1.2.3.4", "")),
        *(("aa:bb:0c:dd:ee:ff", ":"), ("AA-BB-0C-DD-EE-FF", "-"), ("fe80::1/64", "/99")),
        *(("DE89370400440532013000", "AA" + 20 * "9"), ("d41d8cd98f-0", "ffffffffff-f")),
        *(("D41D8CD98F00", 12 * "F"), ("£1,200.50", "£9,999.99"), ("hunter2", "aaaaaa9")),
    ],
)
def test_its_layout(text: str, layout: str) -> None:
    assert identifiers.shape(text).layout == layout


# Letters of these spell no scheme, month, hexadecimal digit, half of the day or ordinal.
_ALPHABETS = (string.digits + "٣²", "gijklqvwyzéßж", "GIJKLQVWYZÉЖ")
_TYPED = st.text(
    st.sampled_from("".join(_ALPHABETS) + "0123456789" * 3 + ".@:/-+(),#%£"), min_size=1
)
_KNOWN = st.sampled_from([text for texts in FORMATS.values() for text in texts.split()])


@given(_TYPED, st.data())
def test_depends_on_the_shape_alone(text: str, data: st.DataObject) -> None:
    def other(character: str) -> str:
        for alphabet in _ALPHABETS:
            if character in alphabet:
                return str(data.draw(st.sampled_from(alphabet)))
        return character

    assert identifiers.shape("".join(map(other, text))) == identifiers.shape(text)


@given(_KNOWN, st.data())
def test_no_digit_matters_in_any_format(text: str, data: st.DataObject) -> None:
    twin = [str(data.draw(st.sampled_from("0189٣"))) if c.isdigit() else c for c in text]
    assert identifiers.shape("".join(twin)) == identifiers.shape(text)


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_whatever_is_typed_has_a_shape(text: str) -> None:
    assert identifiers.shape(text).kind == "identifier"


def test_what_is_too_long_for_a_format_is_a_code() -> None:
    assert identifiers.shape("1" * 300).sort == "code"
    assert identifiers.shape("a." * 200 + "pdf").sort == "code"
    assert identifiers.shape("https://e.org/" + "a" * 300).sort == "web address"
    assert identifiers.shape("a" * 300 + "@b").sort == "mail address"


@pytest.mark.parametrize(
    ("texts", "lengths"),
    [
        ("+44 7700 900123", [3]),
        ("12 +44 7700 900123", [1, 3]),
        ("555 010 2233 7", [3, 1]),
        ("07700 900123", [2]),
        ("020 7946 0999", [3]),
        ("01 99 00 12 34", [5]),
        ("4111 1111 1111 1111 12/27", [4, 1]),
        ("3714 496353 98431", [3]),
        ("DE89 3704 0044 0532 0130 00", [6]),
        ("2019 1200", [1, 1]),
        ("7 12", [1, 1]),
        ("hunter2 jo@b.org", [1, 1]),
        ("+44", [1]),
        ("", []),
    ],
)
def test_groups_of_one_number(texts: str, lengths: list[int]) -> None:
    found = identifiers.runs(texts.split())
    assert [run.stop - run.start for run in found] == lengths


@given(st.lists(st.sampled_from(["+44", "1234", "7700", "900123", "55", "x1", "DE12", "ab12"])))
def test_groups_hold_every_place_once_and_look_at_no_digit(texts: list[str]) -> None:
    found = identifiers.runs(texts)
    assert [place for run in found for place in range(run.start, run.stop)] == [*range(len(texts))]
    assert found == identifiers.runs([text.replace("7", "3") for text in texts])
