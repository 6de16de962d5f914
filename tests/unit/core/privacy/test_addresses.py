"""No name reaches an address that the conversation did not release, in any form, however cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core.privacy.address_forms import LONGEST_UNIT
from sottovoce.core.privacy.addresses import Addresses
from sottovoce.core.privacy.restoration import Restoration, Restored, known_addresses
from sottovoce.core.privacy.surrogate_table import Place
from tests.support.addresses import ADDRESSES, HOST, MAIL, URL

TRUE = {
    "Mara": "Emanuel",
    "Lamb": "Quarnivel",
    "48217": "90210",
    URL: "https://acme.test/emanuel?y=1",
    MAIL: "emanuel@acme.test",
    HOST: "intranet.acme.test",
}
PLACES = [
    Place("Mara", TRUE["Mara"], "PERSON"),
    Place("Lamb", TRUE["Lamb"], "PERSON"),
    *(Place(came, TRUE[came], "IDENTIFIER") for came in ("48217", URL, MAIL, HOST)),
]
RESTORATION = Restoration(PLACES)

TEXTS = (
    "Dear Mara Lamb,",
    "Mara:",
    "**Mara** (Lamb)",
    "call 48217.",
    "Mara/Lamb",
    '"Mara"',
    "—Mara’s",
)
ENDS = ("\n\n", "\n\n- ", "\n\n> ")

surrogates = st.sampled_from(["Mara", "Lamb", "48217", "MARA", "Mara-Lamb", "Mara+48217"])
texts = st.sampled_from(TEXTS).map(lambda text: (text, restored(text)))
addresses = st.tuples(st.sampled_from(ADDRESSES), surrogates).map(
    lambda drawn: (drawn[0].format(drawn[1], "Lamb"),) * 2
)


def restored(text: str) -> str:
    for came, true in TRUE.items():
        text = text.replace(came, true)
    return text


def in_pieces(restoration: Restoration, text: str, cuts: Sequence[int]) -> Restored:
    stream, out, start = restoration.stream(), [], 0
    for cut in (*cuts, len(text)):
        out.append(stream.feed(text[start:cut]))
        start = cut
    rest = stream.finish()
    return Restored("".join(out) + rest, stream.restored, stream.doubtful, stream.addresses)


@pytest.mark.parametrize("form", ADDRESSES)
def test_no_name_reaches_an_address_and_every_name_reaches_the_text(form: str) -> None:
    address = form.format("Mara", "Lamb")
    came = f"Dear Mara Lamb,\n\n{address}\n\nMara Lamb"
    whole = RESTORATION.restore(came)
    assert whole.text == f"Dear Emanuel Quarnivel,\n\n{address}\n\nEmanuel Quarnivel"
    assert in_pieces(RESTORATION, came, range(len(came))) == whole


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.one_of(texts, addresses), st.sampled_from(ENDS)), max_size=5), st.data()
)
def test_no_name_reaches_an_address_however_it_is_cut(
    parts: list[tuple[tuple[str, str], str]], data: st.DataObject
) -> None:
    came = "".join(text + end for (text, _), end in parts)
    cuts = data.draw(st.lists(st.integers(0, len(came)), max_size=8).map(sorted))
    whole = RESTORATION.restore(came)
    assert whole.text == "".join(text + end for (_, text), end in parts)
    assert in_pieces(RESTORATION, came, cuts) == whole
    assert in_pieces(RESTORATION, came, range(len(came))) == whole


signs = st.text("Mara Lb.:/\\@&#;<>()[]\"'=`-!?,\n\ttps_x1éл北\u200b\u00ad\u00a0", max_size=40)
mixed = st.lists(
    st.one_of(signs, st.sampled_from([URL, MAIL, HOST, "Mara", "https://", "](", "url(", "<a "]))
).map("".join)


@settings(max_examples=100, deadline=None)
@given(mixed, st.data())
def test_chunking_never_changes_what_is_an_address(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    whole = RESTORATION.restore(text)
    assert in_pieces(RESTORATION, text, cuts) == whole
    assert in_pieces(RESTORATION, text, range(len(text))) == whole


@pytest.mark.parametrize(
    "form",
    [
        *("{}", "see {}.", "({})", "<{}>", "**{}**, and", "“{}”", "_{}_", '"{}",', "{}!", "{}?\n"),
        *("[x]({})", "![x](<{}>)", '[x]({} "a title"), too', "[x]: {}", "[x]: <{}> 'title'"),
        *(
            '<a href="{}">x</a>',
            "<img src='{}' alt=x>",
            "<img src={}>",
            '<img alt = "{}" src={} >',
            'url("{}")',
            '{{"url": "{}"}}',
            "- {}\n",
        ),
        "[{}]({})",
    ],
)
@pytest.mark.parametrize("address", [URL, MAIL, HOST])
def test_an_address_that_was_released_comes_back_whole(form: str, address: str) -> None:
    came = form.format(address, address)
    if address != URL:
        came = came.replace("<pat", "<mailto:pat").replace("<cask", "< cask")
    back = RESTORATION.restore(came)
    assert back.text == came.replace(address, TRUE[address])
    assert back.addresses == 0
    assert in_pieces(RESTORATION, came, range(len(came))) == back


def test_a_mail_address_is_a_link_as_well() -> None:
    back = RESTORATION.restore(f"[write]({'mailto:' + MAIL}) or MAILTO:{MAIL.upper()}")
    assert back.text == "[write](mailto:emanuel@acme.test) or MAILTO:emanuel@acme.test"


@pytest.mark.parametrize(
    "text",
    [
        *("Mara: yes", "Mara's", "at 10:30 Mara", "and/or Mara/Lamb", "Mara, Lamb; Mara!", "Mara."),
        *(
            "Mara...",
            "e.g. Mara",
            "Mara.pdf",
            "J. R. Mara",
            "3.5/5 Mara",
            "i < 3 Mara",
            "a <3 Mara",
        ),
        *(
            "// Mara",
            "C++ std::Mara",
            "AT&T Mara",
            "Mara & Lamb",
            "[Mara] (Lamb)",
            "[Ida]: Mara left",
        ),
        *(
            '{"name":"Mara","to":"Lamb"}',
            "{name:'Mara'}",
            "f(Mara, x=Lamb)",
            "<b>Mara</b>",
            "**Mara:**",
        ),
        *(
            "[^1]: Mara said",
            "姓名：Mara，Lamb。",
            "| Mara | Lamb |",
            "[Mara](https://x.test/) Lamb",
            "$Mara$",
        ),
        *(
            "https://x.test/ Mara",
            "<br>Mara<br/>",
            "#include <Mara.h>",
            "<Mara>",
            "email: Mara",
            "@Mara",
            "#Mara",
            "Mara@",
            "Mara:)",
        ),
    ],
)
def test_names_in_text_come_back(text: str) -> None:
    assert RESTORATION.restore(text).text == restored(text)


def test_addresses_that_hold_a_surrogate_are_counted() -> None:
    text = f"{URL} https://x.test/ a@x.test ![x](/p?Mara) <img src='Mara' alt='Lamb'> x://{MAIL}"
    assert RESTORATION.restore(text).addresses == 3
    assert RESTORATION.restore("Mara and https://x.test/").addresses == 0


def test_a_surrogate_that_looks_like_no_address_makes_none() -> None:
    places = [
        Place("@Ann_Cole", "@x.evil.test", "IDENTIFIER"),
        Place("lamp.zip", "q.evil.zip", "IDENTIFIER"),
        Place("Mara", "Emanuel", "PERSON"),
    ]
    restore = Restoration(places).restore
    for text in (
        "Mara-Ann_Cole",
        "@Ann_Cole/Mara",
        "Mara-lamp.zip",
        "Mara.lamp.zip",
        "lamp.zip/Mara",
    ):
        assert restore(text).text == text
    assert restore("ask @Ann_Cole, or lamp.zip.").text == "ask @x.evil.test, or q.evil.zip."


def test_a_surrogate_of_two_addresses_stands_for_neither() -> None:
    places = [Place(URL, f"https://{n}.test/", "IDENTIFIER", before=n) for n in ("one", "two")]
    back = Restoration(places).restore(f"one {URL}")
    assert (back.text, back.addresses) == (f"one {URL}", 1)


def test_an_answer_may_go_on_with_an_address() -> None:
    for before in (
        "![x](https://evil.test/?q=",
        "https://evil.test/",
        "evil.te",
        "<img src='",
        "a@",
    ):
        stream = RESTORATION.stream(before)
        came = "st/Mara"
        assert stream.feed(came) + stream.finish() == came
    stream = RESTORATION.stream("https://evil.test/ Dear")
    assert stream.feed(" Mara") + stream.finish() == " Emanuel"
    stream = RESTORATION.stream(URL[:9])
    assert stream.feed(URL[9:]) + stream.finish() == URL[9:]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_value_that_begins_with_an_address_is_one(trusted: bool) -> None:
    for value in (
        "https://evil.test/?q=Mara Lamb",
        "\n //evil.test/?q=\n\nMara",
        "www.e.test/ Mara",
    ):
        turned = RESTORATION.value(value, trusted=trusted)
        assert turned.text == (restored(value) if trusted else value)
        assert turned.addresses == (not trusted)
    for value in ("Mara Lamb", URL, MAIL, "Write to Mara"):
        assert RESTORATION.value(value, trusted=trusted).text == restored(value)


OPEN = (
    *(
        "https://evil.test/",
        "![x](",
        "![x](<",
        "<img src='",
        "<img ",
        "[x]: ",
        "url(",
        '"https://e.test/',
    ),
    *("www.", "a@", "Mara.", "![x](https://e.test/(", "<", "[", "]", "[x]:", "\\", "&#", "{", "北"),
)


@pytest.mark.parametrize("start", OPEN)
@pytest.mark.parametrize(
    "more", ["x", "Mara ", " ", "\n", "\\", "(", "&#5", "/Mara", "=", "北", "Mara,"]
)
def test_an_address_without_end_is_not_held_back(start: str, more: str) -> None:
    addresses = Addresses(known_addresses(PLACES))
    given = 0
    for piece in (start, *[more * 25] * 40):
        given += sum(len(part.came) for part in addresses.feed(piece))
    came = start + more * 1_000
    assert len(addresses.held) == len(came) - given < LONGEST_UNIT + 2 * max(map(len, TRUE)) + 128
    given += sum(len(part.came) for part in addresses.feed("", final=True))
    assert given == len(came)
