"""A fetched file is whole, expected and in the benches' form, or absent."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.data import rows
from bench.fetch import __main__ as program
from bench.fetch import forms
from bench.fetch.download import download
from bench.fetch.sources import EDITIONS, LEFT_OUT, MADE, SETS, Source, Wanted
from bench.fetch.synthetic import synthetic
from bench.utility.tasks import TASKS
from sottovoce.core.errors import DataLoss, InvalidInput, SottovoceError, Unavailable
from tests.support.paths import ROOT

QUESTIONS = "DESC:manner How does it work ?\nNUM:count How many caf\xe9s are there ?\n"


@dataclass
class Host:
    """Answers of a host by path: status, headers, body, and how much of that it sends."""

    url: str
    answers: dict[str, tuple[int, dict[str, str], bytes, int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)

    def has(self, path: str, body: bytes, *, sends: int | None = None, **headers: str) -> str:
        status = 302 if headers else 200
        self.answers[path] = (status, headers, body, len(body) if sends is None else sends)
        return self.url + path


@pytest.fixture
def host() -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            status, headers, body, sends = found.answers.get(self.path, (404, {}, b"", 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:sends])
            self.wfile.flush()
            found.begun.set()
            if sends < len(body) and self.path == "/slow":
                stop.wait(60)

        def log_message(self, *_: Any) -> None:
            """Not in a test's output."""

    stop = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Host(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield found
        stop.set()
        server.shutdown()
        thread.join()


def test_what_is_whole_is_kept_and_told_by_its_hash(host: Host, tmp_path: Path) -> None:
    url = host.has("/moved", b"", Location=host.has("/file", b"x" * 200_000))
    found = download(url, tmp_path / "file", largest=200_000)
    assert (tmp_path / "file").read_bytes() == b"x" * 200_000
    assert found == hashlib.sha256(b"x" * 200_000).hexdigest()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("case", "error", "said"),
    [
        ("absent", Unavailable, "404"),
        ("truncated", Unavailable, "broke off"),
        ("large", DataLoss, "larger than"),
        ("changed", DataLoss, "has changed"),
        ("off TLS", InvalidInput, "not https"),
        ("nobody", Unavailable, "refused"),
    ],
)
def test_what_is_not_leaves_nothing(
    host: Host, tmp_path: Path, case: str, error: type[SottovoceError], said: str
) -> None:
    url = {
        "absent": host.url + "/absent",
        "truncated": host.has("/short", b"x" * 99, sends=50),
        "large": host.has("/large", b"x" * 101),
        "changed": host.has("/changed", b"x"),
        "off TLS": host.has("/away", b"", Location="http://example.org/file"),
        "nobody": "http://127.0.0.1:1/file",
    }[case]
    known = "0" * 64 if case == "changed" else ""
    (tmp_path / "file").write_bytes(b"as before")
    with pytest.raises(error, match=said):
        download(url, tmp_path / "file", largest=100, sha256=known)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"as before"


def zipped(**members: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"made/{name}.tsv", text)
    return made.getvalue()


def test_questions_are_read_in_their_own_letters() -> None:
    assert forms.trec(QUESTIONS.encode("latin-1")).decode().splitlines() == [
        "text\tlabel\tfine_label",
        "How does it work ?\tDESC\tDESC:manner",
        "How many caf\xe9s are there ?\tNUM\tNUM:count",
    ]


def test_sentences_are_taken_from_archives() -> None:
    said = zipped(train="gj04\t0\t*\tThey laughed us.\nks08\t1\t\tWe left.\n")
    assert forms.cola("made/train.tsv")(said).decode() == (
        "text\tlabel\tsource\nThey laughed us.\t0\tgj04\nWe left.\t1\tks08\n"
    )
    pairs = zipped(train='index\tsentence1\tsentence2\tlabel\r\n0\tA "b" .\tB.\tentailment\r\n')
    columns = (("sentence1", "sentence2", "label"), ("text_a", "text_b", "label"))
    assert forms.glue("made/train.tsv", *columns)(pairs).decode() == (
        'text_a\ttext_b\tlabel\nA "b" .\tB.\tentailment\n'
    )


def test_entities_are_taken_from_blocks() -> None:
    text = "# sent_id = 1\n# text = Anna\tleft\n1\tAnna\tB-PER\t-\n2\t#\tO\t-\n\n1\tEsq\tB-OTH\t-\n"
    first, second = map(json.loads, forms.entities(1, 2)(text.encode()).splitlines())
    assert first == {"tokens": ["Anna", "#"], "ner_tags": ["B-PER", "O"]}
    assert second == {"tokens": ["Esq"], "ner_tags": ["O"]}


def test_a_label_that_is_none_and_blocks_before_the_wanted_are_left_out() -> None:
    text = b"a\tO\n\n1\tB-O\n\nAnna\tB-PER\n"
    made = [*map(json.loads, forms.entities(0, 1, start=1)(text).splitlines())]
    assert [each["ner_tags"] for each in made] == [["O"], ["B-PER"]]


def packed(name: str, text: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def test_as_many_rows_of_each_class_are_drawn_and_the_same_ones_again() -> None:
    lines = [
        f'"{label}","A title","Text ""{n}"", of {label}"' for label in (1, 2) for n in range(9)
    ]
    archive = packed("made/train.csv", "\n".join(lines))
    named = forms.drawn("made/train.csv", 3, 1, ("World", "Sports"))(archive).decode().splitlines()
    assert named[0] == "text\tlabel"
    assert sorted(row.split("\t")[1] for row in named[1:]) == ["Sports"] * 3 + ["World"] * 3
    again = forms.drawn("made/train.csv", 3, 1, ("World", "Sports"))(archive).decode()
    assert again.splitlines() == named
    assert forms.drawn("made/train.csv", 3, 2, ("World", "Sports"))(archive).decode() != again
    numbered = forms.drawn("made/train.csv", 9, 1)(archive).decode()
    assert 'text "8", of 2\t2\n' in numbered
    with pytest.raises(DataLoss):
        forms.drawn("made/train.csv", 10, 1)(archive)


def test_pairs_reviews_and_prompts_are_read_as_published() -> None:
    pairs = 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe said "no".\tHe refused.\r\n'
    assert forms.paraphrases(pairs.encode("utf-8-sig")).decode() == (
        'text_a\ttext_b\tlabel\nHe said "no".\tHe refused.\t1\n'
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("movie_reviews/pos/cv000_1.txt", "good \n film . \n")
        archive.writestr("movie_reviews/neg/cv000_2.txt", "bad .\n")
        archive.writestr("movie_reviews/neg/cv900_3.txt", "worse .\n")
    told = forms.reviews(range(900))(made.getvalue()).decode()
    assert told == "text\tlabel\tcv\nbad .\t0\t000\ngood film .\t1\t000\n"
    asked = '{"question_id": 1, "turns": ["Hi?", "And?"]}\n{"uid": "x", "prompt": "Why?"}\n'
    assert [*map(json.loads, forms.turns("p")(asked.encode()).splitlines())] == [
        {"id": "p-0", "turns": ["Hi?", "And?"]},
        {"id": "p-1", "turns": ["Why?"]},
    ]


def test_made_sentences_are_the_same_everywhere_and_marked_where_they_say() -> None:
    made = synthetic(1)
    assert hashlib.sha256(made).hexdigest().startswith(EDITIONS["synthetic/dev.jsonl.gz"])
    assert made != synthetic(2)
    for row in map(json.loads, made.splitlines()):
        for span in row["spans"]:
            value = row["text"][span["start"] : span["end"]]
            assert value == value.strip()
            if span["kind"] == "IBAN_CODE":
                digits = value.replace(" ", "").upper()
                assert int(f"{digits[4:]}1314{digits[2:4]}") % 97 == 1
            if span["kind"] == "CREDIT_CARD":
                digits = re.sub("[ -]", "", value)[::-1]
                doubled = (int(d) * (1 + n % 2) for n, d in enumerate(digits))
                assert sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0


def test_a_set_without_a_source_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, "--only", "synthetic", "--json") == 0
    assert "made" in json.loads(capsys.readouterr().out)["sets"]["synthetic"]
    with gzip.open(tmp_path / "synthetic" / "dev.jsonl.gz") as file:
        assert file.read() == synthetic(1)


@pytest.mark.usefixtures("two")
def test_another_edition_than_that_of_the_figures_is_told(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for edition in ("", "0" * 16):
        monkeypatch.setitem(program.EDITIONS, "trec/train.tsv.gz", edition)
        (tmp_path / "trec" / "train.tsv.gz").unlink(missing_ok=True)
        assert run(tmp_path, monkeypatch, "--accept", "--only", "trec", "--json") == 0
        told.append(json.loads(capsys.readouterr().out)["sets"]["trec"])
    assert "edition" not in told[0]
    assert "trec/train.tsv.gz" in told[1]


@pytest.mark.parametrize(
    "form",
    [
        forms.as_published,
        forms.trec,
        forms.cola("made/train.tsv"),
        forms.glue("made/train.tsv", ("sentence",), ("text",)),
        forms.entities(0, 1),
        forms.paraphrases,
        forms.drawn("made/train.csv", 1, 1),
        forms.reviews(range(9)),
        forms.turns("p"),
    ],
)
@pytest.mark.parametrize("data", [b"<html>Moved\tO</html>\n", zipped(train="a\tb\n"), zipped()])
def test_another_form_is_refused(form: forms.Form, data: bytes) -> None:
    with pytest.raises(DataLoss, match="what came is no"):
        form(data)


@pytest.fixture
def two(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = host.has("/questions", QUESTIONS.encode("latin-1"))
    words = host.has("/words", b"Anna\tB-person\nleft\tO\n\n")
    lost = Wanted("dev.jsonl.gz", host.url + "/lost", forms.entities(0, 1))
    monkeypatch.setattr(
        program,
        "SETS",
        {
            "trec": Source("none", True, (Wanted("train.tsv.gz", asks, forms.trec),)),
            "wnut17": Source(
                "CC", False, (Wanted("train.jsonl.gz", words, forms.entities(0, 1)), lost)
            ),
        },
    )


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fetch", "--data", str(folder), *words])
    return program.main()


@pytest.mark.usefixtures("two")
def test_a_run_goes_on_where_one_ended(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, "--accept", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["sets"]["trec"].startswith("fetched")
    assert told["sets"]["wnut17"].startswith("failed: ")
    assert rows(tmp_path / "trec" / "train.tsv.gz")[0]["label"] == "DESC"
    host.has("/lost", b"so\tO\n")
    assert run(tmp_path, monkeypatch, "--accept") == 0
    assert host.asked == ["/questions", "/words", "/lost", "/lost"]
    with gzip.open(tmp_path / "wnut17" / "dev.jsonl.gz", "rt") as lines:
        assert json.loads(lines.read())["tokens"] == ["so"]


@pytest.mark.usefixtures("two")
def test_an_edition_that_changed_is_refused(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, "--accept", "--only", "trec") == 0
    (tmp_path / "trec" / "train.tsv.gz").unlink()
    host.has("/questions", b"NUM:count How many ?\n")
    assert run(tmp_path, monkeypatch, "--accept", "--only", "trec") == 1
    assert "has changed" in capsys.readouterr().out
    assert not (tmp_path / "trec" / "train.tsv.gz").exists()


@pytest.mark.usefixtures("two")
def test_nothing_is_fetched_whose_licence_nobody_accepted(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # no terminal: nobody was asked
    assert run(tmp_path, monkeypatch, "--only", "trec") == 0
    assert "--accept" in capsys.readouterr().out.partition("\n")[0]
    assert host.asked == []


def test_a_killed_run_leaves_no_part_in_the_folder(host: Host, tmp_path: Path) -> None:
    url = host.has("/slow", b"NUM:count How many ?\n" * 9, sends=50)
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    temporary.mkdir()
    code = (
        "import sys\nfrom bench.fetch import __main__ as p, forms\n"
        "from bench.fetch.sources import Source, Wanted\n"
        f"p.SETS = {{'trec': Source('', False, (Wanted('t.gz', {url!r}, forms.trec),))}}\n"
        f"sys.argv = ['fetch', '--data', {str(data)!r}]\nsys.exit(p.main())\n"
    )
    where = {**os.environ, "TMPDIR": str(temporary)}
    killed = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=where)
    assert host.begun.wait(60)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert [*data.rglob("*")] == []


def test_every_set_that_the_benches_read_is_fetched_or_said_to_be_left() -> None:
    spoken = SETS.keys() | LEFT_OUT.keys() | MADE.keys()
    assert TASKS.keys() <= spoken
    assert {"pii", "uner_ewt", "wnut17", "ud_gum", "ud_ewt", "btc", "prompts"} <= spoken
    assert not SETS.keys() & LEFT_OUT.keys()
    assert all(w.url.startswith("https://") for each in SETS.values() for w in each.files)
