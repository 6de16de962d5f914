"""The policy `personal` on lines of programs and phones; their form reveals a person."""

from __future__ import annotations

import time

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.records import records
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.text.words import split

PERSONAL = Setting(policy="personal")
KEY = Key(b"records".ljust(32))


def _drawn(privatizer: Privatizer, text: str) -> list[str]:
    """The words that are drawn."""
    release = privatizer.release(text, PERSONAL, key=KEY)
    return [text[word.start : word.end] for word in release.each_word() if word.protected]


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("8c9d0e1f (jagoda 2023-11-02 09:00:01 +0100  13)     return sum(x)", "jagoda"),
        ("Host nas\n  User mwolska\n  Port 22", "mwolska"),
        ("Mar 12 10:14:22 srv-frank sshd[2211]: Accepted publickey", "srv frank"),
        (r"see C:\Users\Svenja Holm\AppData\x.py", r"C:\Users\Svenja Holm\AppData\x.py"),
        ("see C:/Users/Ann Lee/x.py", "Ann Lee/x.py"),
        ("The extension: call x4417", "x4417"),
        ("WIFI:S:KerrFamily_5G;T:WPA;P:bluesky;;", "WIFI:S:KerrFamily_5G bluesky"),
        ("WIFI:T:WPA;S:sunnyside;P:mypass;;", "sunnyside mypass"),
        ("the wifi SkyHome-7F2A pass plumtree77", "SkyHome-7F2A plumtree77"),
        ("snap: r0sie_k\nlogin: kerr99\nusername: dGhhYm8=", "r0sie_k kerr99 dGhhYm8"),
        ("UPDATE users SET x=1 WHERE login='ipop';", "ipop"),
        ("3 March  J. Coombes  /  P. Sealy", "J Coombes P Sealy"),
        (
            "my number is oh seven seven double oh nine double oh four",
            "oh seven double nine four",
        ),
        ('{"org": "Turner Plumbing"}', "Turner"),
        ("docker login -u agatan -p Pies2020! registry", "agatan Pies2020"),
        ("net use Z: /user:agata Pies2020", "Pies2020"),
        ("sshpass -p 'Zima99' ssh x", "Zima99"),
        ("pwd -> fluffy_cat9, password - kotek12", "fluffy_cat9 kotek12"),
        ("contraseña: perrito99\nmot de passe : soleil44", "perrito99 soleil44"),
        ("şifre: aslan1905, hasło Kwiatek77", "aslan1905 Kwiatek77"),
        ("recovery code 7HQ2-XX91-PLK3", "7HQ2-XX91-PLK3"),
        ("my gmail pass Sunshine1974 please", "Sunshine1974"),
        ("14 mart 1979, 3 Şubat 2024, 12. marts 2023", "14 mart 1979 3 Şubat 2024 marts"),
        ("5. května 2021, 4 iulie 2020, 3. desember 2019", "května iulie desember"),
        ("left number 0 1 6 1 4 9 6 0 7 7 1", "0 1 6 4 9 7"),
        ("mail j dot kerr at post dot example", "j kerr post example"),
        (
            "jane.kerr (at) post (dot) example, ida[at]post.example",
            "jane.kerr post ida post.example",
        ),
        ("skype live:.cid.7b1f2a9c, discord kerr.bau", "live:.cid.7b1f2a9c kerr.bau"),
        ('{"plate": "4471 KLM"}', "4471 KLM"),
        ("merge branch of github.com:wren-k/kestrel", "github.com:wren-k/kestrel"),
        ("born the third of june nineteen forty eight", "third june nineteen forty eight"),
        ("May the twenty first two thousand and four", "May twenty first two thousand four"),
        ("PNR XK4P2Q, bleep 2214", "XK4P2Q 2214"),
        ("mads#4471 and rose_k#0001", "mads#4471 rose_k#0001"),
        ("Attached: CV_Rose_Kerr.pdf, kerr.docx", "CV_Rose_Kerr.pdf kerr.docx"),
        ("Rose_Long_contract.docx", "Rose_Long_contract.docx"),
        (
            "Bly_H_dismissal.docx, Stone-Hope-payslip.pdf, hope_stone_cv.pdf",
            "Bly_H_dismissal.docx Stone-Hope-payslip.pdf hope_stone_cv.pdf",
        ),
        ("Field_J_P45.pdf, Hunter-payslip.pdf", "Field_J_P45.pdf Hunter-payslip.pdf"),
        ("uid=1000(hquill) gid=1000(hope) groups=1000(hope),27(sudo)", "hquill hope"),
        ("Host hquill-nas\n  HostName 192.168.1.4\n  User root", "hquill nas"),
        ("dn: cn=Hope Stone,ou=people,dc=example", "cn=Hope Stone"),
        ("-rw-r--r-- 1 hope  staff 4096 x\n-rw-r--r--@ 1 root rose 96 x", "hope rose"),
        ("chown hquill:grace x; chown -R rose /srv/app", "hquill grace rose"),
        ("chown -R -v --no-dereference rose: x\nsudo -E -H -u hope ls", "rose hope"),
        ("sudo -u hope ls\nsu - hquill\nssh -l bly 192.168.1.4", "hope hquill bly"),
        ("mysql -u hope -p\npsql -h localhost -U hquill shop", "hope hquill"),
        ("usermod -aG docker hquill\npasswd hope\nadduser rose sudo", "hquill hope rose"),
        ("hope  412  0.0  0.1  123  678 pts/0 Ss 10:00 0:00 bash", "hope"),
        ("rose  1044  1010  0 10:00 ?  00:00:01 /usr/bin/python3", "rose"),
        (" 4123 hquill  20   0   123   67  12 S  0.3  0.1  0:00 bash", "hquill"),
        ("hope  pts/0  192.168.1.20  still logged in", "hope"),
        ("0 3 * * * hope /usr/bin/backup\nweb CRON[123]: (rose) CMD (/bin/x)", "hope rose"),
        ("Accepted publickey for hope from 192.168.1.20 port 22", "hope"),
        ("Failed password for invalid user bly from 192.168.1.2", "bly"),
        ('FATAL: password authentication failed for user "hope"', "hope"),
        ("[auth] user hope: authentication failure", "hope"),
        ("remote: Permission to x/y.git denied to hope-stone.", "hope stone"),
        ('{"msg":"login failed","user":"pearl.stone"}', "pearl.stone"),
        ("Student | Mark\nOcean | 54\nRiver | 71", "Ocean River"),
        ("CREATE USER 'hope'@'%' IDENTIFIED BY 'kitten'", "hope kitten"),
        ('audit: acct="hope" exe; # TODO(rose): fix; Session 4 of user grace.', "hope rose grace"),
        ("$ whoami\nhope", "hope"),
        ("reviewer = rose.field, owner: will-long", "rose.field will long"),
        ("name of child: honor light; allergies: egg", "honor light"),
        ("minecraft: goatdancer, my roblox is moonpickle77", "goatdancer moonpickle77"),
        ("my pass code's four four seven one", "four seven one"),
        ("gate is oh nine two two", "oh nine two"),
        ("Reg: kilo x-ray one nine alpha bravo", "kilo x ray one nine alpha bravo"),
        ("my insta is frostypickle", "frostypickle"),
        ("my discord is frosty pickle, add me", "frosty pickle"),
        ("my insta handle is goatdancer\npsn: frosty pickle", "goatdancer frosty pickle"),
        ("add frosty pickle on discord", "frosty pickle"),
        ("dm goatdancer on telegram", "goatdancer"),
        ("the code is alpha seven tango niner", "alpha seven tango niner"),
        ("callsign kilo tango seven", "kilo tango seven"),
        ("it's oh seven double two", "oh seven double two"),
    ],
)
def test_the_form_of_a_line_tells(privatizer: Privatizer, text: str, private: str) -> None:
    assert {*private.split()} <= {*_drawn(privatizer, text)}


@pytest.mark.parametrize(
    "text",
    [
        "User stories\nUser    root\nUser experience",
        "00000000 is zero (Not Committed Yet)",
        "It ran on localhost kernel: usb 1-1: new device",
        r"C:\Program Files (x86)\Common Files",
        "handle: open_file, user: test1, username: my_user, user: user_42, login: login_page.html",
        "wifi WPA2 key and wifi 802.11ax key exchange, wifi RTL8821CE pass-through",
        "WIFI:S:<SSID>;",
        "docker run -u root -p 80:80 x; docker run -u 1000 -p 8080 x; git push -u origin main",
        "net user /domain; mkdir -p dir; password - is it safe",
        "La parola magica. A senha do problema.",
        "Look at the dot product. Point at x dot y. The array[at]index.",
        "discord bot.py and telegram api_id, steam 2.0, discord.js, discord webhook_url",
        "the number 1 2 3 4 5; numbers 1 2 3 4 5 6 7 8; matrix 1 0 0 1 0 1 1",
        "the fourth of july and the third of may be late, second march",
        "See below.\nC. Even Positions\ntime limit",
        "see www.example.org: Version 2 and example.org > Version 3",
        "Maj 5 is here; 5 maj; K-mart 3 mart",
        "one two three four five six seven eight",
        "The sets were one two one two three one two.",
        "vitamin C. Rose hips. Plan B. Mark it.",
        "issue#1234, room#1201, python#3111",
        "iris.png, mark_sheet.pdf, rose_garden.jpg, annual_report.pdf, will.docx, may_bill.pdf",
        "confirmation of 300 orders in 24 hours; Confirmation dialog 404",
        '{"lat": 1, "lon": 2} lon="3"',
        "Form_A_draft.docx, Plan_B.pdf, Vitamin_D_study.pdf, Page_A.pdf, cv_template.docx",
        "may_payslip.pdf, payslip_june.pdf, Grade_B_marks.xlsx, field_report.pdf, Hall_B_plan.pdf",
        "uid=0(root) gid=0(root) groups=0(root),27(sudo),100(users), f=2(x),300(points)",
        "Host prod\n  User git\ncn=admin,dc=example cn=Domain Users,ou=groups",
        "drwxr-xr-x 2 root www-data 4096 html\n-rw------- 1 postgres adm 96 x",
        "chown root:root x; chown will change the owner; sudo -u postgres psql",
        "useradd to add a user, passwd, id; sudo systemctl status nginx; ssh -l root",
        "root  1  0.0  0.1  123  678 ?  Ss  10:00  0:00 /sbin/init\n*/5 * * * * certbot renew",
        "permissions for user groups, for user input, run as user root",
        "my discord is not working, my insta is down, my snapchat is really slow",
        "add voice channels on discord, add custom emojis on discord, add music on instagram",
        "add me on discord, follow people on twitter, add subtitles on tiktok",
        "one hotel two golf courses, alpha 2 delta 3",
        "user: mark.list, login: page.index, user: test.user, permission denied to people",
        "GRANT ALL ON x TO 'root'@'localhost'; TODO(user): fix; FIXME(perf); name of user: admin",
        "owner: page.index, author: main.py, reviewer: bot, solve x one two, x alpha 2 bravo",
        "xbox is broken, twitch: streaming, minecraft: java edition, the room is oh so nice",
        "IDENTIFIED BY '<password>'; IDENTIFIED BY 'password'; for user in users; for user prefs",
        "two double one single rooms, one double two singles",
    ],
)
def test_other_lines_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _drawn(privatizer, text) == []


@pytest.mark.parametrize("pump", ["chgrp -", "sudo -", "gid=1"])
def test_forms_of_lines_are_fast_on_the_worst_text(pump: str) -> None:
    document = pump * (60_000 // len(pump))
    words = split(document)
    sight = Sight(words, [""] * len(words), [0] * len(words), [w.text.lower() for w in words])
    begun = time.process_time()
    assert [*records(document, sight)] == []
    assert time.process_time() - begun < 10
