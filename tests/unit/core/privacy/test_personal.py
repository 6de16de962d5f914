"""The policy `personal`: hidden words, passing words, and the owner's choices."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.privacy.hiding import KINDS, Hiding, Pattern, Phrases
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import POLICIES, PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer

PERSONAL = Setting(policy="personal")
KEY = Key(b"personal".ljust(32))


def _privatizer(bundle: Bundle, **more: Any) -> Privatizer:
    """Return an engine with an owner who allows the policy."""
    return Privatizer.of(bundle, floors=PrivacyLimits(least_policy="personal"), **more)


def released(privatizer: Privatizer, text: str, hiding: Hiding | None = None) -> str:
    return privatizer.release(text, PERSONAL, key=KEY, hiding=hiding).text


@pytest.mark.parametrize(
    "text",
    [
        "How do I configure nginx ingress timeouts in kubernetes with helm?",
        "My doctor prescribed ibuprofen 400 mg for my migraine. Is that safe with aspirin?",
        "Answer in JSON. Translate this to French.",
        "What is 17 * 23?",
        "for i in range(10): print(x[i-1], firstName, parse_rows, str1, array.length)",
        "The meeting on Monday in March takes 45 minutes and starts at 9:30.",
        "Use 3.5 GB, $1,200.50, 15,000 rows and 2x the memory.",
        "Explain the Gaussian distribution and Markov chains to a beginner.",
        "Write a SQL query: SELECT id, total FROM orders WHERE total > 100 LIMIT 10;",
        "They may 3 times march 20 miles.",
        "My boss will fire me and my friend may come.",
        "Please explian the goverment budget.",
        "Write a function that parses dates and returns ISO 8601.",
        "Firefox and Thunderbird crash on Fedora; LibreOffice works.",
        "What does MOSFET stand for? Explain the KL divergence, then SCADA and PWM.",
        "Is Waze better than TeamViewer? i can't log in to deepl anymore",
        r"\author{The LaTeX Team} \title{Hope and Grace} \begin{frame}{Will it work} \owner{}",
        "Compare a Touareg with a Bentayga. Is Staphylococcus harmless?",
    ],
)
def test_a_request_without_anything_private_leaves_as_typed(
    privatizer: Privatizer, text: str
) -> None:
    assert released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Summarise for Priya.", ["Priya"]),
        ("Ask Dr Elena Marsh about it.", ["Elena", "Marsh"]),
        ("Mrs. Fish and Mr Long disagree.", ["Fish", "Long"]),
        ("Please call Mrs Hope PRICE tomorrow", ["Hope", "PRICE"]),
        ("Mrs. Fish is my landlady.", ["Fish"]),
        ("Surname: Long", ["Long"]),
        ("my husband mark lost his job and my mum rose is 81", ["mark", "rose"]),
        ("my brother will cant walk", ["will"]),
        ("TAYLOR SWIFT AND NINO CASE ARE MY NEIGHBOURS", ["TAYLOR", "SWIFT", "NINO", "CASE"]),
        ('{"name": "Rose"}', ["Rose"]),
        ("We await your proposals. Revd Honor Tilling", ["Honor", "Tilling"]),
        ("Please ask Cllr Hope Thorn or Lt Cdr Fair.", ["Hope", "Thorn", "Fair"]),
        ("My friend Monmouth lives in Sedona.", ["Monmouth", "Sedona"]),
        ("Dear Rose,\nthank you.", ["Rose"]),
        ("Sunday Okoro called. Persephone Okello came.", ["Sunday", "Okoro", "Persephone"]),
        ("Ask Tuesday Nwosu about it.", ["Tuesday", "Nwosu"]),
        (r"\name{Hope}{Stone} \address{34 Rose Lane}{Leeds}", ["Hope", "Stone", "Rose", "Leeds"]),
        ("She lives at 12 Rose Lane, Leeds LS1 4AB.", ["12", "Rose", "Leeds", "LS1", "4AB"]),
        ("Mail e.marsh@mail.example or call 07700 900123.", ["e.marsh", "900123"]),
        ("Call (555) 123-4567 or +44 20 7946 0958.", ["123-4567", "7946", "0958"]),
        ("Born on 14/03/1979, married on 3 March 2004.", ["14/03/1979", "2004"]),
        ("My order number is 48213.", ["48213"]),
        ("Call 9493 7477, 61 51 81, or (505)498-8487x6837.", ["9493", "7477", "61 51", "498"]),
        ("passphrase: correct horse battery staple", ["correct", "horse", "battery", "staple"]),
        ("password: hunter", ["hunter"]),
        ("licence key AAAAA-BBBBB-CAT-DOG", ["AAAAA", "BBBBB", "CAT", "DOG"]),
        ("The card's MAC is de:ad:be:ef:ca:fe", ["de:ad", "ca:fe"]),
        (
            "legal winner thank year wave sausage worth useful legal winner thank yellow",
            ["legal", "winner", "thank", "sausage", "yellow"],
        ),
        ("I am Turkish and my husband is Danish.", ["Turkish", "Danish"]),
        ("See /home/rose/notes.txt and https://mail.example/rose", ["rose"]),
        ("@rose_may wrote it", ["rose_may"]),
        ("I got a contract from Silver Oak Ltd. in May.", ["Silver", "Oak"]),
        ("She was hired by Better Days after school.", ["Better", "Days"]),
    ],
)
def test_what_says_who_is_drawn(privatizer: Privatizer, text: str, private: list[str]) -> None:
    left = released(privatizer, text)
    assert not [each for each in private if each in left], left


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Next Monday Bassey leaves.", "Monday"),
        ("We meet on Sunday Okoro told me.", "Sunday"),
        ("Rota: Monday Kerr, Wednesday Long", "Monday"),
    ],
)
def test_a_day_before_a_surname_stays_in_a_rota(
    privatizer: Privatizer, text: str, day: str
) -> None:
    assert day in released(privatizer, text)


def test_a_title_a_label_and_the_question_stay(privatizer: Privatizer) -> None:
    left = released(privatizer, "Dr Elena Marsh, born 14/03/1979: which vaccine is due?")
    assert left.startswith("Dr ")
    assert left.endswith(": which vaccine is due?")
    assert released(privatizer, '{"name": "Rose"}').startswith('{"name": "')
    left = released(
        privatizer, "Patient: Long, Rose; MRN 00482913, DNI 12345678Z; allergic to nuts."
    )
    assert left.startswith("Patient: ")
    assert left.endswith("; allergic to nuts.")
    assert "; MRN " in left
    assert ", DNI " in left


def test_nothing_is_charged_because_nothing_gets_noise(privatizer: Privatizer) -> None:
    assert privatizer.release("I met Priya in Leeds.", PERSONAL, key=KEY).charge == 0


def test_a_text_of_any_length_is_decided_in_windows(privatizer: Privatizer) -> None:
    text = "Please ask Priya about the invoice. " * 800
    left = released(privatizer, text)
    assert "Priya" not in left
    assert left.count("about the invoice.") == 800


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_switch(privatizer: Privatizer, bundle: Bundle, kind: str) -> None:
    examples = {
        "persons": "Mrs Kowalski called.",
        "places": "The flat is at 12 Rose Lane.",
        "organisations": "Company: Zorblat Grenfield",
        "contacts": "Write to a.b@mail.example now.",
        "numbers": "My order number is 48213.",
        "secrets": "password: hunter",
        "dates": "It was on 14/03/1979.",
        "origins": "I am Turkish.",
        "unlisted": "They said that it is very brumblious today.",
        "facts": "Is he pregnant?",
    }
    only = Hiding.of((each, each == kind) for each in KINDS)
    without = Hiding.of((each, each != kind) for each in KINDS)
    text = examples[kind]
    assert _privatizer(bundle, hiding=only).release(text, PERSONAL, key=KEY).text != text
    assert _privatizer(bundle, hiding=without).release(text, PERSONAL, key=KEY).text == text


def test_facts_pass_unless_the_owner_says_otherwise(privatizer: Privatizer) -> None:
    assert released(privatizer, "Is he pregnant?") == "Is he pregnant?"


def test_the_hide_list_wins_over_everything(bundle: Bundle) -> None:
    hiding = Hiding.of(
        [(kind, False) for kind in KINDS], allow=["blue heron", "zeroh"], hide=["Blue Heron"]
    )
    own = _privatizer(bundle, hiding=hiding)
    left = own.release("Zeroh is the BLUE-heron project of Priya.", PERSONAL, key=KEY).text
    assert left.startswith("Zeroh is the ")
    assert "BLUE" not in left
    assert "heron" not in left
    assert left.endswith("project of Priya.")


def test_an_allowed_word_passes_and_a_pattern_hides(bundle: Bundle) -> None:
    own = _privatizer(bundle, hiding=Hiding.of(allow=["Priya"], patterns=["staff=emp[0-9]{3}"]))
    left = own.release("Priya is emp123 here.", PERSONAL, key=KEY).text
    assert left.startswith("Priya is ")
    assert "emp123" not in left


def test_a_caller_can_hide_more_and_never_less(bundle: Bundle) -> None:
    owner = _privatizer(bundle, hiding=Hiding.of([("dates", False)], hide=["heron"]))
    caller = Hiding.of([("persons", False)], allow=["heron"], hide=["invoice"])
    left = owner.release("Priya has an invoice, 14/03/1979, heron.", PERSONAL, hiding=caller).text
    assert not [each for each in ("Priya", "invoice", "14/03/1979", "heron") if each in left]


@pytest.mark.parametrize(
    "expression",
    ["(a+)+b", "(a|a)*b", "(.*)(.*)(.*)x", r"(\w+\s?)*$", r"(a)\1", "x*", "(", "a{1,9}" * 6],
)
def test_a_pattern_that_could_take_long_or_is_none_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInput, match="pattern"):
        Pattern.parse(f"staff={expression}")


@pytest.mark.parametrize("text", ["staff", "=x", "Staff Name=x", "staff="])
def test_a_pattern_needs_a_name(text: str) -> None:
    with pytest.raises(InvalidInput):
        Pattern.parse(text)


def test_a_taken_pattern_is_fast_on_the_worst_text() -> None:
    pattern = Pattern.parse(r"staff=a{1,60}b{0,60}c")
    begun = time.process_time()
    assert pattern.spans("a" * 20_000) == []
    assert time.process_time() - begun < 20


def test_a_pattern_matches_across_the_cuts_of_a_long_text() -> None:
    pattern = Pattern.parse("staff=EMP[0-9]{4}")
    text = "".join(f"EMP{number:04} " for number in range(300))
    assert len({*pattern.spans(text)}) == 300


def test_lists_are_bounded() -> None:
    with pytest.raises(InvalidInput):
        Phrases(map(str, range(5_000)))
    with pytest.raises(InvalidInput):
        Phrases(["..."])
    with pytest.raises(InvalidInput):
        Hiding.of([("names", True)])


def test_the_owner_may_forbid_the_policy(bundle: Bundle) -> None:
    strict = Privatizer.of(bundle, floors=PrivacyLimits(least_policy="names"))
    with pytest.raises(NotReady, match="personal"):
        strict.release("Priya", PERSONAL)


def test_no_other_policy_hides_less() -> None:
    assert all(policy.covers(POLICIES["personal"]) for policy in POLICIES.values())
    assert not [n for n in POLICIES if n != "personal" and POLICIES["personal"].covers(POLICIES[n])]


def test_hiding_does_not_show_its_words() -> None:
    assert "heron" not in repr(Hiding.of(hide=["heron"]))
