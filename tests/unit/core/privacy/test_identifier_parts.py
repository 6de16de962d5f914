"""Under `personal`, public parts of paths, links and settings stay, and private parts do not."""

from __future__ import annotations

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.hiding import Hiding
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.restoration import COMMON, Restoration, ordinary_words
from sottovoce.core.privacy.surrogate_table import observe
from sottovoce.core.text.frequencies import commonest

PERSONAL = Setting(policy="personal")
KEY = Key(b"parts".ljust(32))


@pytest.mark.parametrize(
    ("text", "stays", "private"),
    [
        ("/home/tkowalska/shop/app/views.py", "/home/ /shop/app/views.py", "tkowalska"),
        (r"C:\Users\mwisniewski\Documents\q1.xlsx", r"C:\Users\ \Documents\q1.xlsx", "mwisniewski"),
        ("file:///home/zofia/tests/x.txt", "file:///home/ /tests/x.txt", "zofia"),
        ("/home/zofia/Kowalski/Nair_2023.pdf", "/home/ .pdf", "zofia Kowalski Nair 2023"),
        ("/home/zofia/clients/Uwe/x.txt", "/home/ /clients/ /x.txt", "zofia Uwe"),
        ("/home/zofia/clients/Zoë/x.txt", "/home/ /clients/ /x.txt", "zofia Zoë"),
        ("/home/zofia/clients/Łoś/x.txt", "/home/ /clients/ /x.txt", "zofia Łoś"),
        ("user=mlindqvist", "user=", "mlindqvist"),
        ("name=hunter", "name=", "hunter"),
        ("id=48213", "id=", "48213"),
        ("ip=84.23.119.7", "ip=", "84.23.119.7"),
        ("DB_PASSWORD=sunshine22", "DB_PASSWORD=", "sunshine"),
        ("deploy@84.23.119.7:/srv/www", "deploy@ :/srv/www", "84.23.119.7"),
        ("nadia@84.23.119.7", "@", "nadia 84.23.119.7"),
        ("git@github.com:hvogel/solar-tracker.git", "git@github.com: .git", "hvogel solar tracker"),
        ("https://github.com/hvogel/solar.git", "https://github.com/ .git", "hvogel solar"),
        (
            "https://docs.google.com/document/d/1A2b3C/edit",
            "https://docs.google.com/ edit",
            "1A2b3C",
        ),
        ("https://www.google.com/search?q=piotr+bilek", "https://www.google.com/search?", "bilek"),
        ("https://en.wikipedia.org/wiki/Rose_May", "https://en.wikipedia.org/wiki/", "Rose May"),
        ("https://kerr-bau.example/team/peter?x=zofia", "https:// ", "kerr bau team peter zofia"),
        (
            "mongodb://kerr:S3cr3tPw@db1.nair.example:27017/shop",
            "mongodb:// :27017/shop",
            "kerr S3cr3tPw db1 nair",
        ),
        ("jdbc:postgresql://db.nair.example:5432/crm", "jdbc:postgresql:// :5432", "nair"),
        ("s3://nair-backups/2024/dump.sql", "s3:// ", "nair"),
        ("wss://chat.nair.example/ws/zofia", "wss:// ", "nair zofia chat"),
        ("ftp://84.23.119.7/pub", "ftp://", "84.23.119.7 pub"),
        (r"Zofia\nHamburg", r"\n", "Zofia Hamburg"),
        (r"Lane\nLS1 4AB", "", "LS1 4AB"),
        (r"BEGIN:VCARD\nVERSION:3.0\nFN:Ignatius", r"BEGIN:VCARD\nVERSION:3.0\nFN:", "Ignatius"),
        ("C:/Users/hunter/notes", "C:/Users/ /notes", "hunter"),
        ("city=leeds", "city=", "leeds"),
        ("street=rose_lane", "street=", "rose lane"),
    ],
)
def test_only_private_parts_are_drawn(
    privatizer: Privatizer, text: str, stays: str, private: str
) -> None:
    left = privatizer.release(f"Why does {text} fail?", PERSONAL, key=KEY).text
    assert not [part for part in private.split() if part in left]
    assert not [part for part in stays.split() if part not in left]


def test_a_link_to_a_service_without_names_leaves_as_typed(privatizer: Privatizer) -> None:
    text = "Is REDIS_URL=redis://cache:6379/0 right, or postgres://db:5432/app?"
    assert privatizer.release(text, PERSONAL, key=KEY).text == text


def test_a_listed_word_in_a_path_is_hidden_whole(bundle: Bundle) -> None:
    listed = Privatizer.of(
        bundle, floors=PrivacyLimits(least_policy="personal"), hiding=Hiding.of(hide=["shop"])
    )
    left = listed.release("Open /home/zofia/shop/views.py now.", PERSONAL, key=KEY).text
    assert "shop" not in left


def test_a_user_has_one_surrogate_in_all_paths_and_comes_back_alone(
    privatizer: Privatizer, bundle: Bundle
) -> None:
    text = r"See /home/zkowalska/src/app.py, user=zkowalska and C:\Users\zkowalska\x."
    release = privatizer.release(text, PERSONAL, key=KEY)
    user = release.text.partition("/home/")[2].partition("/")[0]
    assert release.text == text.replace("zkowalska", user)
    known = Restoration(observe([release]), commonest("en", COMMON), ordinary_words(bundle))
    assert known.restore(release.text).text == text
    assert known.restore(f"ls /home/{user}/src; su {user}").text == (
        "ls /home/zkowalska/src; su zkowalska"
    )


def test_parts_of_names_are_the_persons(privatizer: Privatizer) -> None:
    left = privatizer.release("Nadia Kerr has /home/nkerr/src.", PERSONAL, key=KEY).text
    given, family, *_ = left.split()
    assert f"/home/{given[0]}{family}/src".lower() in left
