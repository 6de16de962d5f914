"""The policy `personal` on addresses, tables, rows, secrets, and texts that could be slow."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.tables import cells

PERSONAL = Setting(policy="personal")
KEY = Key(b"structure".ljust(32))


def _standing(privatizer: Privatizer, text: str) -> set[str]:
    """The words that are not replaced."""
    release = privatizer.release(text, PERSONAL, key=KEY)
    return {text[w.start : w.end] for w in release.each_word() if not w.replaced}


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("I live at 12 Rose Lane, Leeds LS1 4AB.", "12 Rose Leeds LS1 4AB"),
        (
            "Send it to:\nThe Old Mill\n14b Station Road\nKings Langley\nWD4 8LF\n\nThanks!",
            "Old Mill 14b Station Kings Langley WD4 8LF",
        ),
        ("it is 45 elm street, springfield, il 62704 here", "45 elm springfield il 62704"),
        ("Go to Flat 3, Hawthorn House, 22 Park Road, Hull.", "3 Hawthorn House 22 Park"),
        ("Ship to 1600 Amber Ave. Apt 4B, San Marino, CA 91108.", "1600 Amber 4B Marino CA 91108"),
        ("Ich wohne in der Lindenstraße 14, 10969 Berlin.", "Lindenstraße 14 10969 Berlin"),
        ("PO Box 1234, Anchorage, AK 99501", "1234 Anchorage AK 99501"),
        ("Address: Hill Cottage, Lower Slaughter, GL54 2HS", "Hill Cottage Lower Slaughter 2HS"),
        ("to 2210 cedar creek drive, boise, id 83702", "2210 cedar creek boise id 83702"),
        ("i live at flat 9b, 201 dalston lane, london e8 1al", "9b 201 dalston london e8 1al"),
        ('{"line1": "42 Station Approach", "line2": "Woking"}', "42 Station Woking"),
        ("Anschrift: Hauptstr. 101a, 69117 Heidelberg", "Hauptstr 101a 69117 Heidelberg"),
        ("j'habite 27 boulevard voltaire, 75011 paris", "27 voltaire 75011 paris"),
        ("Livrez au 37, impasse du Moulin, 31000 Toulouse", "37 Moulin 31000 Toulouse"),
        ("22 place de la République, 59000 Lille", "22 République 59000 Lille"),
        ("vivo en calle mayor 75, 50001 zaragoza", "mayor 75 50001 zaragoza"),
        ("Envíalo a Paseo de Gracia, 92, 2º 1ª, 08008 Barcelona", "Gracia 92 2º 1ª 08008"),
        ("abito in via dei mille 34, 80121 napoli", "mille 34 80121 napoli"),
        ("it goes to 9 lark rise, todmorden ol14 7hq", "9 lark todmorden ol14 7hq"),
        ("I live at number forty-two Quarry Hill Road", "forty two Quarry Hill"),
        ("my address is twenty-three Quarry Hill Road", "twenty three Quarry Hill"),
        ("Forty-two Bode Thomas Street", "Forty two Bode Thomas"),
        ("send it to one hundred and four Harrow Lane", "one hundred and four Harrow"),
        ("We're at number seven, The Maltings.", "seven The Maltings"),
        ("We moved to No.7, Bode Thomas Street", "No.7 Bode Thomas"),
        ("i live at 14 lark croft", "14 lark"),
        ("I live at 14 Lark Rise", "14 Lark"),
        ("my address is 12 heron green", "12 heron"),
        ("we r at number 19 rose cottages", "19 rose"),
    ],
)
def test_an_address_is_drawn_but_for_kinds(privatizer: Privatizer, text: str, private: str) -> None:
    assert not _standing(privatizer, text) & {*private.split()}


@pytest.mark.parametrize(
    ("text", "private", "kept"),
    [
        ("the boiler at 17 Quarry Hill Road leaks", "17 Quarry Hill", "Road"),
        ("she moved to 12 Park Lane", "12 Park", "Lane"),
        ("my house is at 3 Park Lane Close", "3 Park Lane", "Close"),
        ("it stands at 9 Old Mill Lane", "9 Old Mill", "Lane"),
        ("we meet at 5 Church Street West", "5 Church", "Street"),
        ("Dana from flat 4b called", "Dana 4b", "flat"),
        ("Deliver to Apt 12, 40 Amber Avenue", "12 40 Amber", "Apt Avenue"),
        ("send it to No. 12, Quarry Hill Road", "12 Quarry Hill", "No Road"),
        ("the two buses, chapter seven Leeds", "Leeds", "two seven"),
        ("in at number four Adele Kerr", "Adele Kerr", "four"),
    ],
)
def test_of_a_street_and_a_room_the_kind_alone_stands(
    privatizer: Privatizer, text: str, private: str, kept: str
) -> None:
    standing = _standing(privatizer, text)
    assert not standing & {*private.split()}
    assert {*kept.split()} <= standing


CARD = """BEGIN:VCARD
FN:Hope Achterberg
N:Achterberg;Hope;;Dr.;
ORG:Finch & Long Ltd
TEL;TYPE=work,voice:+44 20 7946 0852
TEL;TYPE=cell:07700900199
ADR;TYPE=home:;;14 Saddler Row;Petworth;West Sussex;GU28 0AN;UK
EMAIL;TYPE=internet:hope@achterberg.example
BDAY:1974-08-21
END:VCARD"""
CALENDAR = """BEGIN:VCALENDAR
DTSTART;TZID=Europe/London:20260312T091500
LOCATION:Tiverton Hall
ORGANIZER;CN="Hope Vane":mailto:hope@kestrel.example
ATTENDEE;CN=Hugh Marlowe;ROLE=CHAIR:mailto:hugh@marlowe.example
END:VCALENDAR"""


def test_a_table_between_two_cards_is_a_table() -> None:
    document = f"{CARD}\n\nname,town\nkestrel,hull\nfinch,bath\n\n{CARD}"
    found = {document[cell.start : cell.end] for cell in cells(document)}
    assert {"kestrel", "finch", "Hope Achterberg"} <= found


@pytest.mark.parametrize(
    ("text", "private", "kept"),
    [
        (
            CARD,
            "Hope Achterberg Finch Long +44 20 7946 0852 07700900199 Saddler Petworth GU28"
            " 0AN hope@ 1974-08-21",
            "FN N ORG TEL;TYPE=work TEL;TYPE=cell: ADR;TYPE=home: EMAIL;TYPE=internet: BDAY: Ltd",
        ),
        (
            CALENDAR,
            "20260312 Tiverton Hope Vane Hugh Marlowe marlowe kestrel",
            "DTSTART;TZID=Europe/London: T091500 LOCATION ORGANIZER;CN= ATTENDEE;CN= ROLE=CHAIR",
        ),
    ],
)
def test_the_values_of_cards_and_calendars_are_drawn(
    privatizer: Privatizer, text: str, private: str, kept: str
) -> None:
    left = privatizer.release(text, PERSONAL, key=KEY).text
    assert [each for each in private.split() if each in left] == []
    assert [each for each in kept.split() if each not in left] == []
    assert left.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Ship to 221B Baker Street, London NW1 6XE", "Street"),
        ("My sister lives in Abbey Road 3", "Road"),
        ("I live at 12 Rose Lane, Leeds LS1 4AB.", "Lane"),
        ("rue de Rivoli 12, 75001 Paris is my home", "rue"),
        ("She was born in St Thomas' Hospital, and works at St Mary's School", "Hospital"),
    ],
)
def test_kinds_of_streets_and_organisations_stay(
    privatizer: Privatizer, text: str, kind: str
) -> None:
    assert kind in _standing(privatizer, text)


def test_a_surname_that_is_a_kind_of_street_is_drawn(privatizer: Privatizer) -> None:
    assert not _standing(privatizer, "I met Penny Lane and Tom Close.") & {"Lane", "Close"}


@pytest.mark.parametrize(
    "link",
    [
        *("http://localhost:8080/api/v1/users", "redis://127.0.0.1:6379/0"),
        *(
            "https://docs.python.org/3/library/json.html",
            "https://en.wikipedia.org/wiki/Memory",
        ),
        "https://api.openai.com/v1/chat/completions",
    ],
)
def test_links_of_public_words_leave_as_typed(privatizer: Privatizer, link: str) -> None:
    assert link in privatizer.release(f"Look at {link} and explain.", PERSONAL, key=KEY).text


@pytest.mark.parametrize(
    "link",
    [
        *(
            "https://www.facebook.com/rose.may",
            "https://github.com/hunter",
            "https://mia.github.io/x",
        ),
        *(
            "https://riverside-clinic.com/book",
            "https://intranet.acme.com/hr",
            "http://84.23.119.7/admin",
        ),
        *("https://drive.google.com/file/d/1aB2cD3eF4/view", "https://youtu.be/dQw4w9WgXcQ"),
        *("http://localhost/login?user=will&password=sunshine", "http://localhost/?pin=4711"),
        *("http://localhost:8080/patients/hunter", "https://en.wikipedia.org/wiki/May_Green"),
        *("https://meet.google.com/abc-defg-hij", "https://zoom.us/j/98765432101?pwd=abc"),
        *("https://amazon.com/orders/4711882", "http://localhost:3000/users/anna/notes"),
        *("postgres://app:s3cret@localhost:5432/db", "https://www.google.com/search?q=piotr+bilek"),
        *(
            "https://wikipedia.org/wiki/Rose_May",
            "https://python.org/%52ose",
            "https://python.org.evil.ru/",
        ),
    ],
)
def test_links_with_private_parts_are_drawn(privatizer: Privatizer, link: str) -> None:
    assert link not in privatizer.release(f"Look at {link} and explain.", PERSONAL, key=KEY).text


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("My card 4111 1111 1111 1111, exp 12/27, was charged twice.", "12/27"),
        ("Visa 4111-1111-1111-1111 valid thru 09/26 cvc: 881", "09/26"),
        ("The card ends in 4711. Expiry date: 03/2028.", "03/2028"),
    ],
)
def test_the_month_that_a_card_ends_is_drawn(privatizer: Privatizer, text: str, month: str) -> None:
    assert month not in _standing(privatizer, text)


@pytest.mark.parametrize(
    "text",
    [
        "I ran 5 miles on the road today. A 2 lane road goes by 4 big streets.",
        "The phone 2a costs more.",
        "We have 2 place settings, 12 route maps and 3 avenue signs.",
        "I sent it via fedex 3 days ago, and it costs 20 to drive, or less.",
        "name,price,qty\nwidget,9.99,3",
        "First, read the text, then answer.\nNext, add the total, and stop.",
        "May I will my rose garden to the city?",
        "Refactor this function. Answer in JSON.",
        "Explain Rayleigh scattering, Brooks's law and the Krebs cycle.",
        "Is NaOH stronger than CH3COOH?",
        "Why does this throw a RuntimeError or CrashLoopBackOff?",
        "Open http://127.0.0.1:8080 or https://stackoverflow.com in the browser.",
        'months = ["April", "May", "June"]',
        "x=5; y=x+2; timeout=30s; color=red; width=100%; n=len(rows)",
        "login(token=None, max_tokens=256, password=getpass.getpass(), api_key=api_key)",
        "token=os.environ['TOKEN'] or password=self.password or secret=${SECRET}",
        "SELECT o.x FROM o JOIN c ON o.customer_id = c.id WHERE o.x > 3",
        "INFO c.a.s.OrderService - started. My component is <PatientCard patient={p} />.",
        r"Solve $\int_0^\infty x^2 e^{-x} dx$ with \begin{align} and Vieta's theorem.",
        "index 3f2a1bc..9d8e7f0 100644",
        "What do ISO 27001, DIN 5008 and RFC 2616 say?",
        "She has an M.Sc. and a Ph.D. in physics.",
        "FROM python:3.12-slim\nWORKDIR /app\nENTRYPOINT top",
        "| Name | Dept | Salary |\n|---|---|---|\n| x | IT | 52,000 |",
        "Bitte schreib mir bis Freitag eine Mail.",
        "Schreib eine Bewerbung als Krankenpfleger am Universitätsklinikum.",
        "I want a New England style kitchen.",
        "She says the later will is valid, and dr said it was.",
        "class A:\n    self.client = client",
        "Due soon.\nBank: open",
        "History: AF, HTN. Meds: apixaban; School: open",
        "Can 192.168.0.17 reach 10.0.0.1:8080, 172.16.0.0/12 and 169.254.0.0/16?",
        "ip route add 0.0.0.0/0 via 192.168.1.1; mask 255.255.255.192, wildcard 0.0.0.63",
        "Why does ssh pi@192.168.0.17 time out?",
        "tcp 0 340 192.168.1.20:22 192.168.1.5:51422 ESTABLISHED",
        "What are FF:FF:FF:FF:FF:FF and 00:00:00:00:00:00?",
        "P0420 and U0100; tyres 205/55R16; Cmaj7 and Dadd9; 6.62607015e-34",
        "Jump to 0x00007ffff7e4f9a3 or 0x5555555592a0, where 01001000 is.",
        "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR",
        "uses: actions/checkout@v4",
        "Is ISIN US0378331005 (AAPL) or IE00B4L5Y983 better? CUSIP 037833100. CPT 99213 vs 99214",
        "Hash Join (rows=11932112 cost=15231.88 timeout=30000)",
        "Bump lodash from 4.17.20 to 4.17.21.",
        "Format dd.mm.yyyy or yyyy-MM-dd HH:mm:ss; printf@PLT, pthread_create@@GLIBC_2.34",
        r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d@$!%*?&]{8,}$",
        "/usr/include/c++/11/bits/stl_vector.h:1187:7: error",
        "at java.base/java.lang.Thread.run(Thread.java:833)",
        '<SubmitButton :key="b.id" @click.prevent="onClick(b)" @keyup.enter="x" />',
        "See 384 U.S. 436 (1966) and 42 U.S.C. § 1983.",
        "HTTP/1.1 502 Bad Gateway",
        "- name: Install packages\n- name: Checkout code",
        "2^32 = 4294967296, 10! = 3628800",
        "np.random.default_rng(12345); Serial.begin(115200)",
        'find . | tableName="Orders", LogName=\'System\'; className="Card"; fileName: Report',
        "match tok.kind { TokenKind::Word => Ok(tok.clone()), _ => Err(e) }",
        "| Product | SKU | Price | Stock |\n|---|---|---|---|\n| Walnut Desk | WD-1042 | $9 | 12 |",
        "product_name,price\nWalnut Desk,3\nBamboo Lamp,4",
    ],
)
def test_what_only_looks_private_leaves_as_typed(privatizer: Privatizer, text: str) -> None:
    assert privatizer.release(text, PERSONAL, key=KEY).text == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("id,first_name,surname\n" + "7,Rose,Long\n" * 40, "Rose Long"),
        (
            "| Patient | Ward |\n|---|---|\n| Rose Long | B |\n| May Fish | C |",
            "Rose Long May Fish",
        ),
        (
            "INSERT INTO t (id, surname, given_name) VALUES (1,'Long','Rose'), (2,'Fish','May');",
            "Long Rose Fish May",
        ),
        ("VALUES (1,'Long','Rose','1948-02-29')", "Long Rose"),
        (
            '{"patient": {"first": "Rose", "last": "Long"}, "names": ["May", "Hope"]}',
            "Rose Long May Hope",
        ),
        ("<person><name>Rose Long</name><surname>Fish</surname></person>", "Rose Long Fish"),
        ("MY DOCTOR IS ROSE MAY HUNTER", "ROSE MAY HUNTER"),
        ("i told mia that will is coming", "mia will"),
        ("Theresa May and Can Yilmaz met Will Kowalski.", "Theresa May Can Yilmaz Will Kowalski"),
        ("user,password\nann,correct horse", "correct horse"),
        ("product_name,owner_name\nDesk,Rose Long", "Rose Long"),
        ("Product,Price\nPresent for Grace,9\nLamp from Hunter,11\nTea,3", "Grace Hunter"),
        ("| Item | From |\n|---|---|\n| Desk | Rose Kowalski |", "Rose Kowalski"),
        ("customerName: Rose; userName='Hunter'; ownerName = \"Dale\"", "Rose Hunter Dale"),
        ("'password' => 'Bluebird'; Token: Ruby", "Bluebird Ruby"),
    ],
)
def test_keys_headers_and_rows_tell_names(privatizer: Privatizer, text: str, private: str) -> None:
    assert not _standing(privatizer, text) & {*private.split()}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "export DB_PASSWORD=bluebird22",
            "PGPASSWORD=bluebird22 psql",
            "mysql --password=bluebird22",
        ),
        *("secret=bluebird22", "passwd=bluebird22&user=x", "psk=bluebird22", "PASS=bluebird22"),
        *("curl -u admin:bluebird22 http://localhost", "x-api-key: bluebird22", "TOKEN:bluebird22"),
    ],
)
def test_a_secret_joined_to_its_key_is_drawn(privatizer: Privatizer, text: str) -> None:
    assert "bluebird22" not in privatizer.release(text, PERSONAL, key=KEY).text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("ERROR ip=84.23.119.7 failed", "84.23.119.7"),
        ("Name: Harbor\nage: 3", "Harbor"),
        ("name: Rose goes home", "Rose"),
        ("lookup(5551234)", "5551234"),
        ("my number = 5551234", "5551234"),
        ("lon=0.127758", "0.127758"),
        ("I am at 51.5072178, 0.1277582999", "0.1277582999"),
        ("Her number is 1.555.123.4567.", "1.555.123.4567"),
        ("Her number is 44.161.496.0771.", "44.161.496.0771"),
        ("Her number is 555.123.4567.", "555.123.4567"),
        ("CPT code 99213, call 5551234", "5551234"),
        ("My ISIN account is DE89370400440532013000", "DE89370400440532013000"),
        ("rows=07700900123", "07700900123"),
        ("It moved from 4.7.20 to 5.7.20.", "4.7.20"),
        ("lindqvist@ACME_1.2", "lindqvist"),
        ("<LindqvistBank/> and <AnnaKerr>", "Lindqvist"),
        ('<div @lindqvist="hi"/>', "lindqvist"),
        ("5551234 U.S. 4711882", "5551234"),
        ("Ban 207.155.150.156", "207.155.150.156"),
        ("Phone: 10.20.30.40", "10.20.30.40"),
        ("The camera is at 10.218.6.131.", "10.218.6.131"),
        ("ssh rose@192.168.0.5", "rose@"),
        ("The MAC is 00:00:00:00:00:1f.", "00:1f"),
        ("uses: kerr/home@v1", "kerr"),
        ("a=1&mail=a.kerr@brook.example&b=2", "a.kerr@brook.example"),
        ("--phone=07700900123", "07700900123"),
        ("booking ref X7KQ2L. How do I claim?", "X7KQ2L"),
        ("My reference is QWE4RT", "QWE4RT"),
    ],
)
def test_values_of_keys_are_drawn(privatizer: Privatizer, text: str, private: str) -> None:
    assert private not in privatizer.release(text, PERSONAL, key=KEY).text


@pytest.mark.parametrize(
    ("text", "stays", "private"),
    [
        ("PLEASE HELP ME WRITE AN EMAIL TO MY BOSS DIANE FOSTER.", "TO MY BOSS", "DIANE FOSTER"),
        ("INVOICE FOR HOPE FISH IS OVERDUE.", "INVOICE FOR IS OVERDUE", "HOPE FISH"),
        ("he parks at 7 mill street, what can i do legally?", "what can i do legally", "7 mill"),
        ("J'habite 8 rue des Lilas à Nantes.", "à rue", "8 Lilas Nantes"),
        ("Nele is at St Bede's Primary School.", "Primary School", "Nele Bede"),
        ("Die Rechnung geht an Herrn Oberländer.", "Rechnung Herrn", "Oberländer"),
        ("He works at Fjordkraft AS in Norway.", "AS", "Fjordkraft"),
        ("The MAC is 3C:A6:2F:11:9B:04.", "MAC", "3C:A6:2F:11:9B:04"),
        ("Hb 12, WBC 6.4, Plt 210\nDr Field 6 pm round", "Dr 6 12", "Field"),
        ("He left Brightwell & Co. for us.", "Co", "Brightwell"),
        ("Messrs Quill wrote.", "Messrs", "Quill"),
        ("Das ist Frau Kerr, Ahornweg 12, 38440 Wolfsburg.", "Frau", "Kerr Ahornweg 12 38440"),
        ("I am at 1187 Quail Run Ct. We live here.", "We live", "1187 Quail"),
        ("Anna paid 4, Bram 18, Nettie 27.75 and I 3", "18 27.75", "Anna Bram Nettie"),
    ],
)
def test_words_beside_private_ones_stay(
    privatizer: Privatizer, text: str, stays: str, private: str
) -> None:
    standing = _standing(privatizer, text)
    assert {*stays.split()} <= standing
    assert standing.isdisjoint(private.split())


def test_what_follows_the_sentence_of_a_title_leaves_as_typed(privatizer: Privatizer) -> None:
    assert "Tips" in _standing(privatizer, "An interview with a Ms. Achterberg. Tips?")
    assert not _standing(privatizer, "A letter to Mr. J. R. Achterberg.") & {"J", "R", "Achterberg"}


def test_a_quoted_name_ends_at_its_quote(privatizer: Privatizer) -> None:
    text = "WHERE name = 'Rosa Diaz' AND age > 5 OR name='O'"
    assert {"AND", "OR"} <= _standing(privatizer, text)
    assert not _standing(privatizer, text) & {"Rosa", "Diaz"}


@pytest.mark.parametrize(
    "text",
    [
        "14 March 1979",
        "March 14th, 1979",
        "14.3.79",
        "the 3rd of May 2021",
        "2021-05-03T10:00",
        "12 Oct",
        "Oct 12",
        "my birthday is 3/14",
        "born on the 14th of March",
        "1979/03/14",
        "14-Mar-1979",
        "Mar 14 '79",
        "14. März 1979",
        "20210503",
    ],
)
def test_a_date_in_any_form_is_drawn(privatizer: Privatizer, text: str) -> None:
    digits = {word for word in _standing(privatizer, text) if any(map(str.isdigit, word))}
    assert not digits


def _calls(privatizer: Privatizer, text: str) -> int:
    """The number of calls of functions, which does not depend on the machine's load."""
    number = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        privatizer.release(text, PERSONAL, key=KEY)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize(
    "part",
    [
        *("12 34 ", '" "', "([{", '{"a":', "ROSE MAY ", "Rose Street ", "a street ", "12 May ,"),
        *("password: ", "insert into t(name) values (", "name,age\n", "Rose,", "name|"),
        *("123 456 789, ", "Jan 901 312 123\n", "1.2345, ", "3,9.99,"),
    ],
)
def test_work_grows_with_the_text_and_no_faster(privatizer: Privatizer, part: str) -> None:
    number = 3_000 // len(part)
    few, many = (_calls(privatizer, part * n) for n in (number, 3 * number))
    assert many < 4 * few
