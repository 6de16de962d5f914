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
        "Price: 45.90, Delivery: 3.99, Total: 49.89",
        "Status: open\nOwner: me\nDue: Friday\nRisk: low\nMark: 7/10\nLevel: hard",
        "BEGIN:VCARD\nVERSION:3.0\nEND:VCARD",
        "WBC 11.2, Hb 98, PLT 301, HbA1c 61 mmol/mol, eGFR 44, LDL 3.9, TSH 0.02",
        "U&E: Na 131, K 5.6, Urea 14, Creat 188\nBone: Ca 2.61, PO4 1.1",
        "Name | Age\n--- | ---\nbottle | 34",
        "Is England bigger than South Korea, Russia, Europe or Great Britain?",
        "The ratio is 4/3 on 5/4 systems, until 3/4 done, on 3/4 of it, 24/7.",
        "HDL-C 45, CD-RW 52, USB-C 20, M-F 9-5, sizes S-XL 12",
        "val tenant = Tenant(1)\nfun compareTo(other: Person) = 1\nuse crate::dale::Glen;",
        "error[E0277]: this fails with E0499",
        "Bachelor of Arts from the Bank of England in New Zealand",
        '"Per my last email, it is late."\n- Per diem rates\n- Mark all as read',
        '{"unit_price": 9, "orderTotal": 1250, "account_balance": 3200.5, "sku": "BX-22"}',
        '{"bytes": 10485761, "views": 120453, "room_rate_eur": 140, "patient_weight": 182}',
        "Qty,unit_price,Population\n3,9.99,812043\n4,12.50,84321",
        "age,bp_sys,bp_dia,account_balance\n54,140,90,3204.11\n61,128,82,88.20",
        "Balance 120453 EUR, EUR 120453, 12011 steps, 120453 views, 12345 yen",
        "Our KPIs and OKRs: YoY, MRR, LTV, CAC; take Doliprane or Novalgin.",
        "Mean, median and deviation of 12345, 23456, 34567? The sum of 1200000, 5 and 990123?",
        "Compute the NPV of cash flows -100000, 30000, 42000, 51000, 18500 at 8%.",
        "-rw-r--r--  1 root root 59976 Nov 2022 passwd",
        "  PID  VIRT    RES  CPU COMMAND\n21874 4532120 12340 9.0 postgres\n",
        "      total     used    free  shared  available\nMem: 16253804 13528984 422710 2302110 1",
        "Month Rent Food Fun\nJan 903 314 127\nFeb 902 295 81",
        "The mean of 123 304 4507 12 88; lifts 100 110 120; in 2019 2020 2021 2022",
        "A wall 1920x1080 or 120x60x75, 0x80070005, ISBN 978-0-13-110362-7",
        "12345 * 6789; what is 987654321 / 3, sqrt(1234567)? Is 104729 prime? Seed 12345",
        "503 after 30012ms; pid 48213, up 1234567s, scale=1280:720, income 121500",
        "Python 3.10.12 on Ubuntu 22.04.3; we upgraded to 3.10.12 from 3.9.11",
        "Chrome 124.0.6367.91, section 12.04.11, a ratio of 16:9:4",
        "mask 255.255.255.0, resolver 8.8.8.8, here 127.0.0.1",
        "3 x widget @ 14.99; an i7-13700K, build 22631; a Big Mac",
        "-rw-r--r-- 1 root root 512 notes.txt\ndrwxr-xr-x 2 root root 4096 src",
        "accuracy 0.8732, 0.9121; loss 12.3456, 10.9876, 9.8765; 45° and 12°30' today",
        "border: 1px solid #FFE4B5; color: #FF6347;",
        "Why is 0.1+0.2 = 0.30000000000000004? delay(1000L); const m = 2147483647; 299792458 m/s",
        "Is a 1099-MISC or a 1098-T right? proto2 vs proto3, libx264 in ES2020",
        "What does @Override do? Explain @Input and @Output",
        "403 Forbidden",
        "pi is 3.14159265, e is 2.71828 and phi 1.618033",
        "Is door 2290 open?",
        "My gate: 4000 mm wide. The garage door is 2100 mm.",
        "count one two three four five six seven eight nine ten; error code four oh four",
        "see issue#4471 and PR#1234; 5 u/min",
        "flight BA2490 or EZY8471; a hotel booking; echo $PATH; java.util.map",
        "Is the product WF1000-XM4 or a steam deck better? case 4 of 5",
        "open /srv/clients/http/client.py and /data/students/grades.csv",
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
        ("Tel 020 7946 0991\nFax +44 20 7946 0852", "020 7946 0991 +44 20 7946 0852"),
        ("Rose: 5 pm works\nBill: fine", "Rose Bill"),
        ("It is due 3/4, and we met on Tue 4/3.", "3/4 4/3"),
        ("Kommt vom 3.4. bis 7.4. nach Hause", "3.4 7.4"),
        ("He left Todmorden in Yorkshire", "Todmorden Yorkshire"),
        ("My ID 8001015009087 and Aadhaar 4982 1177 3301", "8001015009087 4982 1177 3301"),
        (
            "Judge Elena Kerr met Senator Paul Whitfield and Coach Petrov",
            "Elena Kerr Paul Whitfield Petrov",
        ),
        (
            "Did Anna die? Is Dana short? Was Priya young?",
            "Anna Dana Priya",
        ),
        ("born 3.10.12, the update on 4.2.11, Julia 3.10.12", "3.10.12 4.2.11 Julia 3.10.12"),
        ("Then Ann Long came, and Tom boyle", "Ann Long Tom boyle"),
        ("he lives at 9 rose lane since march", "9 rose"),
        ("she fell at 22 acacia ave last night", "22 acacia"),
        ("i work at 14 mill road bath every day", "14 mill bath"),
        ("Order 88213 costs 12345 yen", "88213"),
        (
            "order_id,qty,unit_price,name\n88213,3,9.99,Ida\n88214,4,12.50,Tom",
            "88213 Ida 88214 Tom",
        ),
        ("patient_id,age,bp_sys\n88213,54,140\n", "88213"),
        ("Send to 48213977 EUR 500", "48213977"),
        ("I am at 51.5074, -0.1278. Come!", "51.5074 0.1278"),
        ("we sit at 6.5244, 3.3792 now", "6.5244 3.3792"),
        ("latitude: 51.507\nlongitude: -0.128", "51.507 0.128"),
        ("It is 51°30'26\"N 0°07'40\"W", "51°30 26 0°07 40"),
        ("51.5074° N, 0.1278° W", "51.5074° 0.1278°"),
        ("lat,lon\n51.5074,-0.1278\n", "51.5074 0.1278"),
        ("It is 51 deg 30' 26.46\" N, turned 90 deg E", "51 deg 30 26.46"),
        ("we meet at 14 orchard way at 8", "14 orchard"),
        ("what's the fastest way to get to 22b osier walk", "22b osier"),
        ("drive me to 7a orchard way please", "7a orchard"),
        ("how do i get to 22 osier walk", "22 osier"),
        ("i am outside 9 elm gardens now", "9 elm"),
        ("i live at nine rose close today", "nine rose close"),
        ("we close at 10 please drive to work, at 3 half way through", ""),
        ("at 5 sharp walk, at 2 other way", ""),
        ("Malvern WR14\n2PQ", "Malvern WR14 2PQ"),
        ("Post code: l23 4tn", "l23 4tn"),
        ("plate: FX 123 KD, reg AB 12 CD, reg kx12 abc", "FX 123 KD AB 12 CD kx12 abc"),
        ("IS 20 NOT 1999, UP 20 TO 1999", ""),
        ("plate A 4, reg 12 abc, reg R12 is free", ""),
        ("card **** **** **** 4471, SSN last four 4472", "4471 4472"),
        ("The last four 2000 meter races, **** 2024", ""),
        ("dob 12.4.17, due 3.10.12", "12.4.17 3.10.12"),
        ("Pay 61 1090 1014 0000 0712 1981 2874", "61 1090 1014 0000 0712 1981 2874"),
        ("Il est là du 14 mars au 3 avril", "14 mars 3 avril"),
    ],
)
def test_nothing_beside_the_private_words_is_drawn(
    privatizer: Privatizer, text: str, drawn: str
) -> None:
    assert _drawn(privatizer, text) == drawn.split()


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Aaron Judge Miller and Justice Holloway came.", "Aaron Judge Miller Justice Holloway"),
        ("Pay 4111,1111,1111,1111 now", "4111,1111,1111,1111"),
        ("Name Surname Home Phone\nIda 612 345 678\nTom 612 345 679", "612 345 678 679"),
        ("Name First Second Third\nIda 0612 345 678", "0612 345 678"),
        ("Guest Room A B\nIda 612 345 678", "612 345 678"),
        ("No, I mean 612 345 678", "612 345 678"),
        ("I am on 610 220 300 or 510 220 3000", "610 220 300 510 220 3000"),
        ("my call log 07700900123, call 07700900124 even late", "07700900123 07700900124"),
        ("5551234567 / 5559876543, reach 5551234569 / 22", "5551234567 5559876543 5551234569"),
        ("Call 5551234 days, 5559876 nights", "5551234 5559876"),
        ("Oxford 3.10.12, Christmas 25.12.20", "3.10.12 25.12.20"),
        ("She said 612 345 678 or 555 123 4567", "612 345 678 555 123 4567"),
        ("call 510 220 3000, sort code 10 20 30", "510 220 3000 10 20 30"),
        ("case 12345 / order 67891", "12345 67891"),
        ("call 0161,496,0772 or 555,123,4567", "0161,496,0772 555,123,4567"),
        ("mi DNI 12345678s", "12345678s"),
        ('{"credit_card": 4821, "pin_code": 4821}', "4821"),
        ("Hi Bunny,\nsee you soon.\nLove,\nBear", "Bunny Bear"),
        ("Call +33 6 12 34 56 78.", "+33 6 12 34 56 78"),
        ("call 020  7946  0991", "020 7946 0991"),
        ("ask @sunshine rule of thumb", "@sunshine"),
        ("My car KX19 TYU was towed.", "KX19 TYU"),
        ("plaka: 34 ABC 123, kenteken: G-123-BB", "34 ABC 123 G-123-BB"),
        ("rego ABC 12D, biển số 59-X1 123.45", "ABC 12D 59-X1 123.45"),
        ("nr rej. KR 5AB12 lub MH 12 AB 1234", "KR 5AB12 MH 12 AB 1234"),
        ("Mein Auto M-AB 1234, er hatte B-XY 99 und HH-KL 2043", "M AB 1234 B XY 99 HH KL 2043"),
        ("Ballyhaunis, Co. Mayo, F35 X2K4", "F35 X2K4"),
        ('{"eircode": "C15 X8Y2"}', "C15 X8Y2"),
        ("network HeronNest pass otter2291, alarm 9920", "otter2291 9920"),
        ("i am english and my bf is polish", "english polish"),
        ("Receipt MSC2190123456", "MSC2190123456"),
        ("Sum of account numbers 48213977, 48213978, 48213979", "48213977 48213978 48213979"),
        ("Values: 5551234, 5559876, 4447777", "5551234 5559876 4447777"),
        ("  PID  VIRT    RES  CPU COMMAND\n21874 4532120 12340 9.0 dial 5551234", "5551234"),
        ("Wifi: SkyHub-9912 / plumtree88", "SkyHub-9912 plumtree88"),
        ("Apellidos: Rosa Campos", "Rosa Campos"),
        ("* @sunset thanks!\n* @maple", "@sunset @maple"),
        ("@sunset\n@maple\n", "@sunset @maple"),
        ("see @sunshine, @tom_h and @hvogel/solar", "@sunshine @tom_h @hvogel/solar"),
        (r"Lane\nHamburg and \tanya", r"Lane\nHamburg \tanya"),
        ("the plate was KL 66 ORT; my car, LM 07 TWP, is blocked", "KL 66 ORT LM 07 TWP"),
        ("plates were 7ABC123, reg no. is km66 ort", "7ABC123 km66 ort"),
        ("placa do carro: QWE-4R71", "QWE-4R71"),
        ("the cvv is four four one", "four one"),
        ("account number three one nine two six eight", "three one nine two six eight"),
        ("alarm code is nine two oh four", "nine two oh four"),
        (
            "Caller: four five three nine, five seven eight seven",
            "four five three nine seven eight",
        ),
        ("tag crumbwizard#4471, I am u/frosty_pickle", "crumbwizard#4471 u/frosty_pickle"),
        ("medicare 1EG4-TE5-MK73, plus code 9C3X+7Q", "1EG4-TE5-MK73 9C3X+7Q"),
        ("ticket #AB1234, order #FF6347. Here is #A12345", "AB1234 FF6347 A12345"),
        ("ask Ito-san and Mori-kun about it", "Ito Mori"),
        ("cashapp $hettyq, w3w otter.plum.kettle", "hettyq otter.plum.kettle"),
        ("at ///otter.plum.kettle today", "///otter.plum.kettle"),
        ("Az.: 4 O 229/23, our ref ABC/44/RP, file ref: RP-44-K", "4 O 229/23 ABC/44/RP RP-44-K"),
        ("Redeem code XK4T-22PL-QZ and product key KTZ4-WE71", "XK4T-22PL-QZ KTZ4-WE71"),
        ("flight K2XB4T from here, hotel conf is 7KT2XQ", "K2XB4T 7KT2XQ"),
        ("03MAY FPO G LONG RENT 650.00\nDD S FISH LOAN 112.50", "G LONG S FISH"),
        ('{"user": "admin", "pass": "zzTop!!"}', "zzTop"),
        (r"D:\Clients\Grant Long\tax.pdf", r"D:\Clients\Grant Long\tax.pdf"),
    ],
)
def test_numbers_and_names_in_other_forms_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert {*private.split()} <= {*_drawn(privatizer, text)}
