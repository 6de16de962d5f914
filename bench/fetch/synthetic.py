"""Sentences with marked personal data, made from a seed: the public twin of the set `pii`.

Templates and lists are our own work, and all people and companies in them are invented. Words from
the lists are combined at random. So a Norwegian given name may precede a Brazilian surname. Half
of the sentences are in small letters, as in `pii`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["synthetic"]

_SIZE: Final = 2000
_FIELD: Final = re.compile(r"\{(\w+)\}")

_GIVEN: Final = """
    Adaeze Aino Alasdair Amina Ana Anneliese Arjun Aylin Beatriz Bogdan Brigid Caoimhe Chiara
    Dafydd Danuta Dmitri Ebru Eduardo Efua Eleni Emeka Estelle Farida Femi Finnian Gabriela
    Gareth Giorgos Greta Hamza Hannelore Haruki Henrike Ibrahim Ifeoma Ilse Imani Ingrid Ivana
    Jelena Jorge Juhani Kavita Keiko Kofi Krzysztof Lakshmi Leila Liam Lucia Magda Malik Marisol
    Matthew Mbali Mei Mirko Nadia Nikhil Nora Oksana Olufemi Orla Pavel Petra Priya Quentin
    Rafael Rhiannon Rosa Ruben Sandra Sanjay Seamus Simone Siobhan Stefan Sunita Svetlana Tamsin
    Tariq Thandiwe Tomasz Ursula Valentina Vikram Walter Wei Xavier Yasmin Yuki Zainab Zdenka
    """.split()  # noqa: SIM905 - a page of quotes otherwise
_FAMILY: Final = """
    Abernathy Achterberg Adeyemi Almeida Andersson Bakker Balogun Bergstrom Bhattacharya
    Blackwood Brennan Carvalho Castellanos Chaudhry Chukwu Cohen Cooper Dahl Delacroix Demir
    Dlamini Dvorakova Eriksen Fairweather Farouk Fernandes Fitzgerald Gallagher Garcia Georgiou
    Goldberg Gupta Haddad Halloran Hashimoto Hernandez Hughes Ivanova Jankowski Jensen Kaplan
    Karlsson Khumalo Kim Kowalczyk Kurosawa Larsen Lehtonen Lindqvist Lombardi Marchetti Mbeki
    Mendoza Moreau Murphy Mwangi Nakamura Nguyen Novak Nwosu Okonkwo Olsen Ortega Osei Papadakis
    Patel Petrov Quigley Rahman Reinhardt Ricci Rosenthal Rossi Sanchez Schneider Sharma Silva
    Singh Sokolova Stewart Suzuki Tanaka Thompson Underwood Vasquez Venkataraman Villeneuve
    Wagner Walsh Weatherby Williams Wojcik Yamamoto Yilmaz Zhang Zimmermann
    """.split()  # noqa: SIM905 - a page of quotes otherwise
_PLACES: Final = (
    *(
        "Aberystwyth",
        "Accra",
        "Antwerp",
        "Baltimore",
        "Bergen",
        "Bratislava",
        "Brisbane",
        "Cardiff",
    ),
    *(
        "Casablanca",
        "Chennai",
        "Cork",
        "Curitiba",
        "Dresden",
        "Dunedin",
        "Galway",
        "Gdansk",
        "Genoa",
    ),
    *("Graz", "Halifax", "Izmir", "Kampala", "Kyoto", "Leipzig", "Ljubljana", "Lusaka", "Lyon"),
    *("Mombasa", "New Orleans", "Nottingham", "Osaka", "Porto", "Pune", "Quebec City", "Rotterdam"),
    *("San Antonio", "Sarajevo", "Saskatoon", "St. Gallen", "Tampere", "Tbilisi", "Uppsala"),
    *("Valparaiso", "Wellington", "York", "Zaragoza", "Lake Constance", "the Black Forest"),
)
_STREETS: Final = (
    *(
        "Alder",
        "Bridge",
        "Canal",
        "Castle",
        "Chapel",
        "Church",
        "Elm",
        "Foundry",
        "Garden",
        "Harbour",
    ),
    *("High", "Kingfisher", "Linden", "Maple", "Market", "Mill", "Orchard", "Quarry", "Station"),
    *("Sycamore", "Tannery", "Victoria", "Willow"),
)
_WAYS: Final = ("Street", "Road", "Avenue", "Lane", "Drive", "Court", "St", "Rd", "Close")
_TRADES: Final = (
    *("Analytics", "Bakery", "Brothers", "Capital", "Consulting", "Dental Care", "Electronics"),
    *("Foods", "Freight", "Insurance", "Logistics", "Motors", "Partners", "Pharmacy", "Plumbing"),
    *("Savings Bank", "Software", "Textiles", "Travel", "Veterinary Clinic"),
)
_FORMS: Final = ("", "", "", " Ltd", " Inc", " GmbH", " LLC", " and Sons")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DOMAINS: Final = ("com", "org", "net", "co.uk", "de", "io", "example")

_TEMPLATES: Final = (
    "Please change the address of {PERSON} to {ADDRESS}.",
    "My name is {PERSON} and I have not received my new card.",
    "Hi, this is {GIVEN}. Can you call me back at {PHONE_NUMBER}?",
    "I moved from {LOCATION} to {LOCATION} last year. My old number, {PHONE_NUMBER}, is dead.",
    "Send the contract to {EMAIL_ADDRESS}, and a copy to {EMAIL_ADDRESS}.",
    "The card {CREDIT_CARD} was charged twice by {ORGANIZATION}.",
    "My social security number is {US_SSN}, do you need anything else?",
    "Transfer the deposit to {IBAN_CODE} before {DATE_TIME}.",
    "{PERSON} was born on {DATE_TIME} in {LOCATION}.",
    "We met {PERSON} and {PERSON} at the office of {ORGANIZATION} in {LOCATION}.",
    "{TITLE} {FAMILY} will see you on {DATE_TIME}.",
    "Is the clinic of {TITLE} {PERSON} still at {ADDRESS}?",
    "{GIVEN} said the parcel for {ADDRESS} never came.",
    "The login page on {DOMAIN_NAME} refuses my password.",
    "Someone from {IP_ADDRESS} tried to open my account.",
    "Her driving licence, {US_DRIVER_LICENSE}, runs out on {DATE_TIME}.",
    "{ORGANIZATION} has opened a new branch in {LOCATION}.",
    "Why did {ORGANIZATION} raise the price of my insurance?",
    "The invoice is for {PERSON}, {ADDRESS}.",
    "I would like to speak with {PERSON} about the flat in {LOCATION}.",
    "How far is it from {LOCATION} to {LOCATION} by train?",
    "{GIVEN} and {GIVEN} are getting married in {LOCATION} on {DATE_TIME}.",
    "My account number at {ORGANIZATION} is {IBAN_CODE}.",
    "Could you tell {PERSON} that the meeting moved to {DATE_TIME}?",
    "Contact {PERSON}: {EMAIL_ADDRESS}, {PHONE_NUMBER}.",
    "{FAMILY} and {FAMILY} founded {ORGANIZATION} in a garage in {LOCATION}.",
    "Since {DATE_TIME} I cannot reach {ORGANIZATION} on {PHONE_NUMBER}.",
    "Write to {PERSON} at {ADDRESS} if you want your money back.",
    "As {GIVEN} wrote in her letter, the garden behind {ADDRESS} floods every spring.",
    "{PERSON} lost a purse with the card {CREDIT_CARD} somewhere in {LOCATION}.",
    "The patient, {PERSON}, complained of headaches after a trip to {LOCATION}.",
    "Did {GIVEN} {FAMILY} ever work for {ORGANIZATION}?",
    "Our lawyer, {TITLE} {FAMILY}, works for {ORGANIZATION}.",
    "For questions visit {DOMAIN_NAME} or ring {PHONE_NUMBER}.",
    "I was told that {PERSON} from accounting has my tax form with {US_SSN} on it.",
    "Block the card {CREDIT_CARD} and send a new one to {ADDRESS}.",
    "The server {IP_ADDRESS} belongs to {ORGANIZATION}.",
    "{PERSON}'s sister lives near {LOCATION}.",
    "Yesterday {PERSON} sold the boat to {PERSON} for half of its price.",
    "Ask {GIVEN} whether {GIVEN} has paid the rent for {ADDRESS}.",
    "My grandmother left {LOCATION} when she was nine.",
    "The witness named {PERSON}, {PERSON} and {PERSON}.",
    "A van of {ORGANIZATION} blocks the entrance at {ADDRESS}.",
    "Sign me up as {EMAIL_ADDRESS}, please.",
    "The plumber, {PERSON}, can be reached at {PHONE_NUMBER} after {DATE_TIME}.",
    "The weather in {LOCATION} was dreadful, but {GIVEN} enjoyed the museum.",
    "Is there a cheaper flight to {LOCATION} on {DATE_TIME}?",
    "{ORGANIZATION} and {ORGANIZATION} are said to merge.",
)


def synthetic(seed: int) -> bytes:
    """Return JSON lines with text, marked spans and the number of the template.

    Args:
        seed: the same seed gives the same bytes on every supported Python.
    """
    chance = random.Random(seed)
    lines = [_line(chance, number % len(_TEMPLATES)) for number in range(_SIZE)]
    chance.shuffle(lines)
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def _line(chance: random.Random, template: int) -> dict[str, Any]:
    text, spans, end = "", [], 0
    whole = _TEMPLATES[template]
    for field in _FIELD.finditer(whole):
        kind = field[1]
        text += whole[end : field.start()]
        value = _MAKERS[kind](chance)
        spans.append(
            {"start": len(text), "end": len(text) + len(value), "kind": _KINDS.get(kind, kind)}
        )
        text += value
        end = field.end()
    text += whole[end:]
    small = text.lower() if chance.random() < 0.5 else text
    return {"text": small, "spans": spans, "template": template}


def _digits(chance: random.Random, pattern: str) -> str:
    """Replace each ``#`` with a digit, and each ``@`` with a letter."""
    letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
    made = (
        str(chance.randrange(10)) if c == "#" else chance.choice(letters) if c == "@" else c
        for c in pattern
    )
    return "".join(made)


def _person(chance: random.Random) -> str:
    given, family = chance.choice(_GIVEN), chance.choice(_FAMILY)
    form = chance.choice(("{0} {1}", "{0} {1}", "{0} {1}", "{0} {2}. {1}", "{0}", "{1}"))
    return form.format(given, family, chance.choice("ABCDEFGHJKLMPRSTW"))


def _address(chance: random.Random) -> str:
    street = f"{chance.choice(_STREETS)} {chance.choice(_WAYS)}"
    number, town = chance.randrange(1, 400), chance.choice(_PLACES[:-2])
    form = chance.choice(
        ("{0} {1}, {2}", "{0} {1}, {2} {3}", "{0} {1}, Flat {4}, {2} {3}", "{0} {1}")
    )
    return form.format(number, street, town, _digits(chance, "#####"), chance.randrange(1, 60))


def _date(chance: random.Random) -> str:
    day, month, year = chance.randrange(1, 29), chance.randrange(12), chance.randrange(1940, 2030)
    form = chance.choice(
        ("{1} {0}, {2}", "{0} {1} {2}", "{1} {0}", "{0:02}/{3:02}/{2}", "{2}-{3:02}-{0:02}", "{4}")
    )
    return form.format(day, _MONTHS[month], year, month + 1, chance.choice(_DAYS))


def _card(chance: random.Random) -> str:
    """Return a card number with a valid check digit (Luhn)."""
    digits = _digits(chance, chance.choice(("4", "51", "37")) + "#" * 14)[:15]
    doubled = (int(d) * (2 - place % 2) for place, d in enumerate(digits))
    whole = f"{digits}{-sum(n - 9 if n > 9 else n for n in doubled) % 10}"
    parts = (whole[:4], whole[4:8], whole[8:12], whole[12:])
    return chance.choice(("", " ", "-")).join(parts)


def _iban(chance: random.Random) -> str:
    """Return a German IBAN with valid check digits (ISO 7064)."""
    account = _digits(chance, "#" * 18)
    check = 98 - int(f"{account}131400") % 97  # "DE00" behind the account, letters as numbers
    whole = f"DE{check:02}{account}"
    grouped = " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))
    return chance.choice((whole, grouped))


def _domain(chance: random.Random) -> str:
    name = f"{chance.choice(_FAMILY)}-{chance.choice(_TRADES).split()[0]}".lower()
    return f"{chance.choice(('', 'www.'))}{name}.{chance.choice(_DOMAINS)}"


def _mail(chance: random.Random) -> str:
    given, family = chance.choice(_GIVEN).lower(), chance.choice(_FAMILY).lower()
    user = chance.choice(("{0}.{1}", "{2}{1}", "{0}{3}", "{0}_{1}"))
    name = user.format(given, family, given[0], chance.randrange(10, 99))
    return f"{name}@{_domain(chance).removeprefix('www.')}"


def _phone(chance: random.Random) -> str:
    forms = ("(###) 555-####", "###-555-####", "+1 ### 555 ####", "+44 20 7946 0###", "555-####")
    return _digits(chance, chance.choice(forms))


_MAKERS: Final[dict[str, Callable[[random.Random], str]]] = {
    "PERSON": _person,
    "GIVEN": lambda chance: chance.choice(_GIVEN),
    "FAMILY": lambda chance: chance.choice(_FAMILY),
    "TITLE": lambda chance: chance.choice(("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.")),
    "LOCATION": lambda chance: chance.choice(_PLACES),
    "ORGANIZATION": lambda chance: (
        f"{chance.choice(_FAMILY)} {chance.choice(_TRADES)}{chance.choice(_FORMS)}"
    ),
    "ADDRESS": _address,
    "DATE_TIME": _date,
    "EMAIL_ADDRESS": _mail,
    "PHONE_NUMBER": _phone,
    "CREDIT_CARD": _card,
    "IBAN_CODE": _iban,
    "DOMAIN_NAME": _domain,
    "US_SSN": lambda chance: _digits(chance, "9##-##-####"),
    "US_DRIVER_LICENSE": lambda chance: _digits(chance, "@#######"),
    "IP_ADDRESS": lambda chance: ".".join(str(chance.randrange(1, 255)) for _ in range(4)),
}
_KINDS: Final = {"GIVEN": "PERSON", "FAMILY": "PERSON"}
