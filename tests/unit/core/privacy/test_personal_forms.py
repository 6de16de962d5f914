"""The policy `personal` on forms, notes, letters and programs, as people paste them."""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer

PERSONAL = Setting(policy="personal")
KEY = Key(b"forms".ljust(32))


def _drawn(privatizer: Privatizer, text: str) -> list[str]:
    """The words that are drawn."""
    release = privatizer.release(text, PERSONAL, key=KEY)
    return [text[word.start : word.end] for word in release.each_word() if word.protected]


@pytest.mark.parametrize(
    "text",
    [
        "Dear Hiring Manager,\nI want to be an Office Manager.",
        "Dear Customer Service,\nmy parcel is late.",
        "Hello World",
        "Hi Team,\nthe report is done.",
        "Open 10:30-12:00, 14:00–15:30 and 9:00am-5:00pm.",
        "Description  Qty  Unit  Total\nDesign 10   75.00   750.00\nHosting 12 120.00 1440.00",
        "String name;\nint x = foo;\nproxy_pass http://127.0.0.1:3000;",
        "@dataclass\nclass Point:\n    x: int",
        "@Override\npublic String toString() {",
        '@RequestMapping("/x")',
        "@media (max-width: 600px) { a { color: red } }",
        " * @param x the value\n * @return the sum",
        "What does the @Transactional annotation do, and `@property`?",
        "npm install @types/node react@18.2.0 typescript@5",
        r"\title{A} \today \raggedright \resizebox \nonumber",
        "White cells 11.2 g/L (L), platelets 301, sodium 138 mmol/L",
        "WiFi: 802.11ax, 5GHz and Bluetooth 5.0",
    ],
)
def test_forms_and_programs_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert privatizer.release(text, PERSONAL, key=KEY).text == text


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("Dear Rose,\nthank you.\nRegards,\nBear", "Rose Bear"),
        ("Anna 34, Piotr 31 and Lucy 29 are siblings.", "Anna Piotr Lucy"),
        ("I live at Thulegatan 78 in Solna", "Thulegatan 78 Solna"),
        ("Since 22 Nov 2023 at 17 Ferry Road, Hull HU1 4RS", "22 Nov 2023 17 Ferry Hull HU1 4RS"),
        ("22 Tanner Street, Bristol BS1 4DJ\nQty   Unit   Total", "22 Tanner Bristol BS1 4DJ"),
        ("5 High Street, Leeds  LS1 4AB", "5 High Leeds LS1 4AB"),
        ("MY BOSS MRS COYLE IS FURIOUS", "COYLE"),
        ("order=8841207\n09:13:02,115 ERROR timeout", "order=8841207"),
        ("Groom: Arthur\nStraße: Hauptstr. 7\nNombre: Lucas", "Arthur Hauptstr 7 Lucas"),
        ("Thu 16:21:09 2024 +0100 tell Rose", "Rose"),
    ],
)
def test_nothing_beside_the_private_words_is_drawn(
    privatizer: Privatizer, text: str, drawn: str
) -> None:
    assert _drawn(privatizer, text) == drawn.split()


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Hi Bunny,\nsee you soon.\nLove,\nBear", "Bunny Bear"),
        ("Call +33 6 12 34 56 78.", "+33 6 12 34 56 78"),
        ("call 020  7946  0991", "020 7946 0991"),
        ("ask @sunshine rule of thumb", "@sunshine"),
        ("My car KX19 TYU was towed.", "KX19 TYU"),
        ("Receipt MSC2190123456", "MSC2190123456"),
        ("Wifi: SkyHub-9912 / plumtree88", "SkyHub-9912 plumtree88"),
        ("Apellidos: Rosa Campos", "Rosa Campos"),
        ("* @sunset thanks!\n* @maple", "@sunset @maple"),
        ("@sunset\n@maple\n", "@sunset @maple"),
        ("see @sunshine, @tom_h and @hvogel/solar", "@sunshine @tom_h @hvogel/solar"),
        (r"Lane\nHamburg and \tanya", r"Lane\nHamburg \tanya"),
    ],
)
def test_numbers_and_names_in_other_forms_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert {*private.split()} <= {*_drawn(privatizer, text)}
