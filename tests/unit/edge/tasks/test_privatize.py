"""One document, one release: same bytes, one charge, nothing readable on disk."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, NotFound, QuotaExceeded
from sottovoce.core.privacy.policies import Setting, Treatment
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.edge.state.ledger import Spending
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.privatize import LONG, LONGEST_SESSION, resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import configured, opened
from tests.support.paths import ROOT

DOCUMENT = "Anna was coughing in the garden by the pond with a Zyxglorp and a lamp."
STRONG = Setting("strong")


def test_a_repeated_document_is_the_same_bytes_and_charged_once(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        first = device.releases.release(DOCUMENT, STRONG)
        spent = device.ledger.spending()
        assert spent.spent == 4.0 * sum(w.treatment is Treatment.NOISE for w in first.words)
        assert device.releases.release(DOCUMENT, STRONG) == first
    with opened(config, lexicon_tagger) as device:  # after a restart
        assert device.releases.release(DOCUMENT, STRONG) == first
        assert device.ledger.spending() == spent
        assert spent.releases == 1


def test_other_settings_and_other_documents_are_other_releases(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        for document, setting in [
            (DOCUMENT, STRONG),
            (DOCUMENT, Setting("balanced")),
            (DOCUMENT, Setting("strong", "t2t.v1")),
            (DOCUMENT, Setting("strong", policy="all")),
            (DOCUMENT + " ", STRONG),
        ]:
            device.releases.release(document, setting)
        assert device.ledger.spending().releases == 5
    stricter = configured(tmp_path, SOTTO_PRIVACY_UNSURE_BELOW="1")
    with opened(stricter, lexicon_tagger) as device:
        device.releases.release(DOCUMENT, STRONG)
        assert device.ledger.spending().releases == 6


def test_a_release_of_one_bundle_is_not_given_under_another(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    other = tmp_path / "other"
    shutil.copytree(small_bundle_folder, other)
    manifest = dataclasses.replace(Bundle.open(other).manifest, language="xx")
    (other / "manifest.json").write_bytes(manifest.to_json())
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        first = device.releases.release(DOCUMENT, STRONG)
        config.bundle.current.unlink()
        config.bundle.current.symlink_to(other)
        second = device.releases.release(DOCUMENT, STRONG)
        assert second.bundle_id == Bundle.open(other).id != first.bundle_id
        assert device.ledger.spending().releases == 2
        config.bundle.current.unlink()
        config.bundle.current.symlink_to(small_bundle_folder)
        assert device.releases.release(DOCUMENT, STRONG) == first
        assert device.ledger.spending().releases == 2


def test_simultaneous_calls_get_one_release(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as one, opened(config, lexicon_tagger) as other:
        texts: list[str] = []
        gate = threading.Barrier(8)

        def call(number: int) -> None:
            device = (one, other)[number % 2]
            gate.wait()
            texts.append(device.releases.release(DOCUMENT, STRONG).text)

        threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(texts) == 8
        assert len(set(texts)) == 1
        assert one.ledger.spending().releases == 1


def test_past_the_limit_nothing_is_released(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_PRIVACY_LEDGER_LIMIT="30")
    with opened(config, lexicon_tagger) as device:
        first = device.releases.release("The garden and the pond.", STRONG)
        with pytest.raises(QuotaExceeded, match="ledger_limit"):
            device.releases.release(DOCUMENT * 3, STRONG)
        assert device.ledger.spending().releases == 1
        assert len(device.store.rows("SELECT * FROM charged")) == 1
        # what was released before costs nothing and stays available
        assert device.releases.release("The garden and the pond.", STRONG) == first


def test_a_full_disk_gives_nothing_out_and_charges_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        with device.store.transaction() as transaction:
            (pages,) = transaction.execute("PRAGMA page_count").fetchone()
        device.store._connection.execute(f"PRAGMA max_page_count = {pages}")
        given: list[str] = []
        texts = (f"pond {number}" for number in range(1_000))
        with pytest.raises(QuotaExceeded, match="disk"):  # once the page of digests is full
            given.extend(device.releases.release(text, STRONG).text for text in texts)
        assert device.ledger.spending().releases == len(given)


def test_near_copies_share_their_release_and_are_charged_each(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        plain = "the doctor was in the garden by the pond with a lamp"
        first = device.releases.release(plain, STRONG)
        for copy in (plain + " ", plain + ".", plain.replace("garden", "garden,")):
            release = device.releases.release(copy, STRONG)
            assert release.text.translate(PLAIN).strip() == first.text
        assert device.ledger.spending() == Spending(4 * first.charge, 4)


PLAIN = str.maketrans("", "", ".,")


def test_under_another_key_the_same_document_is_drawn_and_charged_again(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device, opened(config, lexicon_tagger) as owner:
        first = device.releases.release(DOCUMENT * 3, STRONG)
        owner.keyring.rotate()
        second = device.releases.release(DOCUMENT * 3, STRONG)
        assert second.text != first.text
        assert device.ledger.spending() == Spending(first.charge + second.charge, 2)
        assert device.releases.release(DOCUMENT * 3, STRONG) == second
        assert device.ledger.spending().releases == 2


def test_a_session_has_its_own_surrogates_and_costs_nothing_more(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        texts = [
            device.releases.release("by the pond AX-99231", STRONG, session).text
            for session in ("", "one", "two", "one")
        ]
        assert len({text.rsplit(" ", 1)[0] for text in texts}) == 1
        assert len({text.rsplit(" ", 1)[1] for text in texts}) == 3
        assert texts[1] == texts[3]
        assert device.ledger.spending().releases == 1


@pytest.mark.parametrize("where", ["before the charge", "after the charge"])
def test_killed_before_its_answer_a_release_is_charged_once_and_stays_the_same(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, where: str
) -> None:
    """kill -9 of the process that releases, just before its charge is on disk and just after."""
    config = configured(tmp_path, bundle=small_bundle_folder)
    program = f"""
import os, pathlib
from sottovoce.core.privacy.policies import Setting
from tests.support.agent import configured, opened
from tests.support.paths import ROOT
from tests.support.small_bundle import LexiconTagger

config = configured(pathlib.Path({str(tmp_path)!r}))
with opened(config, LexiconTagger()) as device:
    charge = device.ledger.charge_once

    def dying(digest, amount, purpose):
        pathlib.Path({str(tmp_path / "drawn")!r}).write_bytes(digest)
        if {where!r} == "after the charge":
            charge(digest, amount, purpose)
        os.kill(os.getpid(), 9)

    device.ledger.charge_once = dying
    device.releases.release({DOCUMENT!r}, Setting("strong"))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT)
    assert killed.returncode == -9
    with opened(config, lexicon_tagger) as device:
        assert device.ledger.spending().releases == (where == "after the charge")
        drawn = device.releases.drawn(device.engine.current(), DOCUMENT, STRONG)
        assert drawn.digest == (tmp_path / "drawn").read_bytes()
        release = device.releases.release(DOCUMENT, STRONG)
        assert release == drawn.release
        assert device.ledger.spending() == Spending(release.charge, 1)


def test_no_word_of_a_document_is_readable_on_disk(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)

    def on_disk() -> bytes:
        return b"".join(file.read_bytes() for file in config.agent.state.iterdir())

    with opened(config, lexicon_tagger) as device:
        before = on_disk()  # with the database's own words, such as "index"
        released = device.releases.release(DOCUMENT, Setting("light")).text
        after = on_disk()
    after += on_disk()
    words = {w.strip(".") for w in (DOCUMENT + " " + released).split() if len(w) > 4}
    words -= {word for word in words if word.encode() in before}
    assert "garden" in words
    assert not [word for word in words if word.encode() in after]


def test_what_is_no_text_is_not_charged(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        for bad in ("", " \n", "a\0b", "x" * 5000, "a " * (1 << 19) + "b"):
            with pytest.raises(InvalidInput):
                device.releases.release(bad, STRONG)
        with pytest.raises(NotFound, match="strong"):
            device.releases.release(DOCUMENT, Setting("weak"))
        assert device.store.rows("SELECT * FROM charged") == []
        assert device.ledger.spending() == Spending(0, 0)


def test_options_fill_up_from_the_defaults() -> None:
    default = Setting("light", "t2t.v1", "all")
    assert resolve(agent.PrivacyOptions(), default) == default
    assert resolve(agent.PrivacyOptions(level="strong"), default) == Setting(
        "strong", "t2t.v1", "all"
    )


def test_the_name_of_a_session_has_its_length(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with opened(config, lexicon_tagger) as device:
        device.releases.release(DOCUMENT, STRONG, "s" * LONGEST_SESSION)
        with pytest.raises(InvalidInput) as caught:
            device.releases.release(DOCUMENT, STRONG, "é" * (LONGEST_SESSION // 2 + 1))
        assert caught.value.subject == "session"
        assert device.ledger.spending().releases == 1


def test_of_long_texts_one_is_worked_on_at_once_and_no_short_one_waits_for_it(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work: set[str] = set()
    entered, may_end = threading.Event(), threading.Event()
    release = Privatizer.release

    def slow(self: Privatizer, document: str, *args: Any, **options: Any) -> Release:
        if len(document) < LONG:
            return release(self, document, *args, **options)
        at_work.add(document[:9])
        entered.set()
        assert may_end.wait(60)
        together.append(len(at_work))
        at_work.remove(document[:9])
        return release(self, "too long for a test", *args, **options)

    together: list[int] = []
    monkeypatch.setattr(Privatizer, "release", slow)
    with (
        opened(configured(tmp_path, bundle=small_bundle_folder), lexicon_tagger) as device,
        ThreadPoolExecutor(4) as threads,
    ):
        texts = [f"number {number} " + "a " * LONG for number in range(4)]
        long = [threads.submit(device.releases.release, text, STRONG) for text in texts]
        assert entered.wait(60)
        for number in range(20):
            assert device.releases.release(f"{DOCUMENT} {number}", STRONG).text
        may_end.set()
        assert all(each.result(60).text for each in long)
    assert together == [1, 1, 1, 1]


pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")

TEXT = "the river by the house was cold and the doctor will sing a song"


def _released(config: Config) -> str:
    with closing(Parts(config)) as device:
        setting = dataclasses.replace(device.default, mechanism="t2t.v1", level="strong")
        return device.releases.release(TEXT, setting).text


def test_graphs_stay_in_the_state_and_change_no_release(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    before = sorted(small_bundle_folder.rglob("*"))
    first = _released(config)
    assert first != TEXT
    (graph,) = (config.agent.state / "graphs").rglob("*.hnsw")
    written = graph.stat().st_mtime_ns
    assert _released(config) == first
    assert graph.stat().st_mtime_ns == written
    assert sorted(small_bundle_folder.rglob("*")) == before


def test_an_altered_graph_is_built_again_and_changes_no_release(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    first = _released(config)
    (graph,) = (config.agent.state / "graphs").rglob("*.hnsw")
    sound = graph.read_bytes()
    graph.write_bytes(sound[:-100] + bytes([255]) * 100)
    assert _released(config) == first
    assert graph.read_bytes() == sound
