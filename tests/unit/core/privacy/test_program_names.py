"""Names of types, packages, namespaces and versions pass under `personal`; names of persons do not.

Each form that passes stands beside the same form with a name, an account or a secret in it.
"""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer

KEY = Key(b"program names".ljust(32))


def _released(privatizer: Privatizer, text: str) -> str:
    return privatizer.release(text, Setting(policy="personal"), key=KEY).text


@pytest.mark.parametrize(
    "text",
    [
        "How does a ForeignKey work in Django compared to ManyToManyField?",
        "customer = models.ForeignKey(Customer, on_delete=models.CASCADE)",
        "PermitRootLogin no\nMaxAuthTries 3\nPasswordAuthentication no",
        "Should I set AllowUsers, HostKey and ClientAliveInterval?",
        "Why is a RollingUpdate slow? The NodePort and the ServiceAccount are fine.",
        "I get a KeyError in the EntityManager. Is the VirtualHost wrong?",
        "ServerName and MaxSessions are set, and ForceCommand is not.",
    ],
)
def test_names_of_types_and_settings_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Our client is KerrBau and they pay late.", "KerrBau"),
        ("Ask JaneDoe and MayKerr about it.", "JaneDoe"),
        ("Ask JaneDoe and MayKerr about it.", "MayKerr"),
        ("Contact RoseHunter today.", "RoseHunter"),
        ("How does KeyDental bill us?", "KeyDental"),
        ("My dentist is at MaxDental.", "MaxDental"),
        ("I met MaxBaker there.", "MaxBaker"),
        ("The owner is WinField.", "WinField"),
        ("How does HostKerr work?", "HostKerr"),
        ("Should I ask PageHunter?", "PageHunter"),
        ("Should I ask RoseField?", "RoseField"),
        ("KeyHost owes us money", "KeyHost"),
        ("PageGroup fired me", "PageGroup"),
        ("MaxTime was my client", "MaxTime"),
    ],
)
def test_names_in_the_same_form_are_drawn(privatizer: Privatizer, text: str, private: str) -> None:
    assert private not in _released(privatizer, text)


@pytest.mark.parametrize(
    "text",
    [
        "Port 8080 already in use. How do I find the process?",
        "Error: Port 5432 is already allocated",
        "Garmin 7, Kindle 4",
        "Heap 7 is full, see Pod 4",
        "Why does Seed 3 fail? And Worker 12?",
        "MaxAuthTries 3",
        "Port 22\nMaxAuthTries 3",
        "Port 5432 was already allocated, and Pod 3 has restarted.",
    ],
)
def test_numbered_things_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("Worker 48213977 called.", "48213977"),
        ("Floor 3, 12 Hill Road, Leeds LS1 4AB", "Hill"),
        ("Mr Port is 12.", "Port"),
        ("Ask Branch 12 times.", "Branch"),
        ("call 01.72..55.51", "55.51"),
        ("Dear Ms Branch, thanks", "Branch"),
        ("Thulegatan 78 is our home", "78"),
        ("Port 44 was fired from his job.", "Port"),
        ("Port 44 owes me rent.", "Port"),
    ],
)
def test_addresses_and_persons_beside_a_number_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert private not in _released(privatizer, text)


@pytest.mark.parametrize(
    "text",
    [
        'import "github.com/gin-gonic/gin"',
        '\t"github.com/gin-gonic/gin"\n\t"go.uber.org/zap"\n\t"k8s.io/client-go/kubernetes"',
        "git clone git@github.com:django/django.git",
        "https://github.com/kubernetes/kubernetes/issues/1234",
        "app.kubernetes.io/name: web",
        "nginx.ingress.kubernetes.io/rewrite-target: /",
        "gopkg.in/yaml.v3 v3.0.1",
        "GET https://registry.npmjs.org/left-pad - Not found",
        '"resolved": "https://registry.npmjs.org/lodash/-/lodash-4.17.21.tgz"',
        "proxy_pass http://backend:3000;",
        "implementation 'org.springframework.boot:spring-boot-starter-web:3.2.1'",
        'implementation("com.squareup.retrofit2:retrofit:2.9.0")',
        "androidx.appcompat:appcompat:1.6.1",
        "GET registry.npmjs.org and lambda.amazonaws.com",
        "spring.datasource.url=jdbc:postgresql://localhost:5432/shop",
        "<groupId>com.fasterxml.jackson.core</groupId>",
        "<artifactId>jackson-databind</artifactId>",
        "org.apache.kafka.clients.producer",
        "networking.k8s.io/v1 and node-role.kubernetes.io/control-plane",
        "https://registry.npmjs.org/@types/node",
        "redis://redis:6379/0 and http://api:8000/users",
        "/home/ubuntu/app/main.py and /home/pi/projects/robot.py",
        "@daily /usr/local/bin/backup.sh",
        "@reboot sleep 60",
        "April_Report.pdf, May_2023.pdf and June_Invoice.pdf",
    ],
)
def test_public_packages_and_namespaces_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ('import "github.com/hvogel/solar-tracker"', "hvogel"),
        ("git clone git@github.com:kerr/app.git", "kerr"),
        ("https://github.com/rosehunter/gin", "rosehunter"),
        ("https://pypi.org/user/kerr/", "kerr"),
        ("https://crates.io/users/garden", "garden"),
        ("https://www.nuget.org/profiles/rose", "rose"),
        ("https://registry.npmjs.org/@kerrbau/tools", "kerrbau"),
        ("https://registry.npmjs.org/~rose", "rose"),
        ("https://www.w3.org/People/kowalski", "kowalski"),
        ('<svg xmlns="http://www.w3.org/2000/svg">', "w3"),
        ("http://rose:hunter2@www.w3.org/2000/svg", "hunter2"),
        ("https://www.w3.org/a?user=mlindqvist", "mlindqvist"),
        ("http://kerr:3000", "kerr"),
        ("http://backend:3000/kowalski", "kowalski"),
        ("implementation 'com.kerrbau.app:core:1.2.3'", "kerrbau"),
        ("com.janedoe.shop", "janedoe"),
        ("java.kowalski", "kowalski"),
        ("kerr.s3.amazonaws.com", "kerr"),
        ("spring.datasource.url=jdbc:postgresql://db.kerr.example:5432/shop", "kerr"),
        ("spring.datasource.password=hunter2", "hunter2"),
        ("ann@golang.org", "ann@"),
        ("gopkg.in/hvogel/app.v1", "hvogel"),
        ("https://www.w3.org/People/zwickelhuber/", "zwickelhuber"),
        ("kotlin.zwickelhuber", "zwickelhuber"),
        ("https://github.com/microsoft/contoso-merger", "contoso"),
        ("https://github.com/google/halvorsen", "halvorsen"),
        ("com.sun.lindqvist", "lindqvist"),
        ("org.json.halvorsen", "halvorsen"),
        ("com.oracle.contoso.payroll", "contoso"),
        ("https://golang.org/x/hvogel", "hvogel"),
        ("javax.tanaka", "tanaka"),
        ("https://marsh.w3.org/", "marsh"),
        ("https://contoso.k8s.io/", "contoso"),
        ("https://hvogel.gopkg.in/", "hvogel"),
        ("https://conda.anaconda.org/t/ab-12ab34cd-56ef/private", "12ab34cd"),
        ("https://cdn.jsdelivr.net/gh/stone/garden/main.js", "stone"),
        ("https://unpkg.com/@rose-marsh/app@1.0.0", "rose-marsh"),
        ("https://lists.w3.org/Archives/Public/rose", "rose"),
        ("http://cancer-clinic:8080/results", "cancer"),
        ("http://mergers:8080/project", "mergers"),
        ("https://intranet/payslips/4471", "payslips"),
        ("http://acme/wiki", "acme"),
        ("/home/oracle/marsh", "marsh"),
        ("my handle is @daily", "daily"),
        ("April_Stone.pdf", "Stone"),
        ("June_Marsh.pdf", "Marsh"),
        ("MayStone.pdf", "Stone"),
    ],
)
def test_owners_and_users_in_the_same_form_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert private not in _released(privatizer, text)


@pytest.mark.parametrize(
    "text",
    [
        "opencv-python==4.8.1.78\nnumpy==1.26.4",
        "pip install foo>=1.2.3.4",
        '"lodash": "4.17.21"',
        "assert 832040 == fib(30)",
        "assert fib(30) == 832040",
        "==12345== HEAP SUMMARY:",
        "proxy_set_header Host $host;",
        "df.corr()",
        "Bitmap Heap Scan on orders (cost=12.34..5678.90 rows=42)",
        r"$\lim_{n\to\infty} a_n$, $x\mapsto y$ and $\alpha_i\in\mathbb{R}$",
        "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
        "Translate this DNA: ATGCGTACCTGACTGA",
        "Where does the protein MKTAYIAKQRQISFVKSHFSRQDILD fold?",
        "ISBN 0306406152 and ISBN-10 0-306-40615-2. EAN 4006381333931.",
        "runtime error: nil pointer dereference",
        "class Meta:",
        'reqwest = "0.11.23"\nthiserror = "1.0.56"',
        "use ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384",
        "pinMode(13, OUTPUT)",
        "BLAKE3, Ed25519, X25519 and Diffie-Hellman",
        "UART /dev/ttyAMA0 at 115200",
        "Explain Merkle trees, Lamport clocks and Paxos.",
        'with DAG("etl", schedule="@daily", catchup=False) as dag:',
        "errno EAGAIN, ENOSPC; ulimit -n 65535; net.core.somaxconn=4096",
        "RequestId: 8 Duration: 3003.17 ms Billed Duration: 3000 ms Memory Size: 128 MB",
        "urllib3: Max retries exceeded with url: /v1/items",
        "==12345== HEAP SUMMARY:\n==12345==     in use at exit: 0 bytes",
        "torch==2.1.0.1\nnumpy==1.26.4",
        "baud_rate: 115200, baudrate=921600, screen /dev/ttyUSB0 921600",
        "EAN code 4006381333931, UPC: 036000291452",
        "Primer AGTCAGTC and the DNA bases ATGCGTAA",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, HIGH:!aNULL:!MD5",
        "Shamir's Secret Sharing splits a key.",
    ],
)
def test_versions_results_and_public_numbers_leave_as_typed(
    privatizer: Privatizer, text: str
) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("ip.src==4.8.1.78", "4.8.1.78"),
        ("client>=5.9.12.4", "5.9.12.4"),
        ("login==84.23.119.7", "84.23.119.7"),
        ("server 5.9.12.4 is down", "5.9.12.4"),
        ("account 48213977 == fetch(30)", "48213977"),
        ("pay(3) == 48213977", "48213977"),
        ("==48213977==", "48213977"),
        ("My ISBN is 0306406153", "0306406153"),
        ("phone 0306406152", "0306406152"),
        ("EAN 4006381333932", "4006381333932"),
        ("password: ATGCGTACCTGACTGA", "ATGCGTACCTGACTGA"),
        ("protein LINDQVISTKARLFREDRIK", "LINDQVIST"),
        (r"b\bar\lindqvist", "lindqvist"),
        ('"birthday": "4.12.21"', "4.12.21"),
        ("my key is AES7-RSA2-K9QX-SHA4", "AES7"),
        ("my PIN (4821) is old", "4821"),
        ("Ask Lamport and Shamir, my neighbours.", "Shamir"),
        ("my account 115201", "115201"),
        ("It took 300 ms. At 3 ms kowalski came.", "kowalski"),
        ("At 3 ms Hunter called.", "Hunter"),
        ("Max asked and Max Kerr paid.", "Max"),
        ("256128256 is my account number", "256128256"),
        ("128-256-128 is my phone", "128-256-128"),
        ("code 128256128256", "128256128256"),
        ("My gym card's barcode: 447190233816", "447190233816"),
        ("patient barcode 4471902334", "4471902334"),
        ("UPC driver phoned from 0207946124", "0207946124"),
        ("44712339 == sum(accounts)", "44712339"),
        ("account == 44712339 == sum(1)", "44712339"),
        ("==44712== my pin", "44712"),
        ("vpn==8.44.71.12", "8.44.71.12"),
        ("rose==8.44.71.12", "8.44.71.12"),
        ("office>=8.44.71.12", "8.44.71.12"),
        ("hvogel==1.2.3.4\nnumpy==1.26.4", "hvogel"),
        ("code 921600", "921600"),
        ("door code AGTCAGTC", "AGTCAGTC"),
        ("wifi TAGATACA", "TAGATACA"),
        ("call CUGGACAA", "CUGGACAA"),
        ("my nickname is TAGGATAC", "TAGGATAC"),
        ("the sequence SWDKEYFQRTHLNVPIMAGC is my password", "SWDKEYFQRTHLNVPIMAGC"),
        ("Max retries his driving test", "Max"),
        ("Ask about Shamir's secret affair", "Shamir"),
        ("Fenwick tree surgeon", "Fenwick"),
        ("Velero owes me", "Velero"),
        ("Tokio is my son", "Tokio"),
    ],
)
def test_addresses_accounts_and_secrets_in_the_same_form_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert private not in _released(privatizer, text)
