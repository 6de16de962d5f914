"""Carrying to the cloud: every example once, through breaks, restarts and refusals."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import InvalidInput, NotReady, QuotaExceeded, SottovoceError
from sottovoce.core.rpc.streams import padded_size
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.ledger import Record
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, customizer, opened, wanted
from tests.support.full_disk import in_memory, no_mounts
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

SUCCEEDED = agent.CUSTOMIZATION_STATE_SUCCEEDED
FAILED = agent.CUSTOMIZATION_STATE_FAILED
UPLOADING = agent.CUSTOMIZATION_STATE_UPLOADING


@dataclass(frozen=True)
class Queued:
    """An agent's parts, and one customisation in its outbox."""

    device: Parts
    id: str
    uploader: Uploader

    @property
    def kept(self) -> agent.Customization:
        return self.device.outbox.get(self.id)

    def ends(self, state: int = SUCCEEDED) -> None:
        """Waits until it is in `state`."""
        until(lambda: self.kept.state == state)

    def says(self, part: str) -> None:
        until(lambda: part in self.kept.message)


Queue = Callable[..., AbstractContextManager[Queued]]


def _uploader(device: Parts, record: Record | None = None) -> Uploader:
    return Uploader(device.cloud, device.outbox, record, first_wait=0.02)


@pytest.fixture
def cloud(small_bundle_folder: Path) -> Iterator[StubCloud]:
    with stub_cloud(small_bundle_folder) as running:
        yield running


@pytest.fixture
def queue(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, cloud: StubCloud
) -> Queue:
    """Opens an agent with one customisation in the outbox."""

    @contextmanager
    def running(number: int = 20, **environ: str) -> Iterator[Queued]:
        environ["SOTTO_CLOUD_ADDRESS"] = cloud.address
        config = configured(tmp_path, bundle=small_bundle_folder, **environ)
        with opened(config, lexicon_tagger) as device:
            examples = (
                agent.LabelledText(text=f"The river {n} was cold", label="ab"[n % 2])
                for n in range(number)
            )
            record = customizer(device).accept(wanted(adapter="desk", epochs=2), examples)
            uploader = _uploader(device)
            yield Queued(device, record.id, uploader)
            uploader.stop()

    return running


@pytest.fixture
def queued(queue: Queue) -> Iterator[Queued]:
    with queue() as one:
        yield one


def _complete(cloud: StubCloud, number: int) -> bool:
    held = cloud.examples()
    return len(held) == number == len({example.example_id for example in held})


def test_examples_arrive_once_and_the_end_is_told(cloud: StubCloud, queue: Queue) -> None:
    with queue(600) as queued:
        queued.uploader.carry(queued.id)
        queued.uploader.carry(queued.id)  # twice is once
        seen = list(queued.device.outbox.watch(queued.id, lambda: False))
        assert seen[-1].state == SUCCEEDED
        assert seen[-1].uploaded == 600
        assert (seen[-1].progress.epoch, seen[-1].progress.epochs) == (2, 2)
        assert seen[-1].progress.held_out_accuracy == 0.875
        assert seen[-1].bytes_sent > sum(e.ByteSize() for e in cloud.examples())
        assert _complete(cloud, 600)
        sequences = [sent.first_sequence for sent in cloud.received["UploadExamples"]]
        assert len(sequences) == len(set(sequences))
        assert queued.device.store.rows("SELECT * FROM outbox") == []
    uploads = cloud.received["UploadExamples"]
    assert all(padded_size(sent.ByteSize()) == sent.ByteSize() for sent in uploads)
    spare = sum(len(sent.padding) for sent in uploads)
    assert spare < 0.125 * sum(sent.ByteSize() for sent in uploads)


def test_a_broken_upload_goes_on_from_what_is_committed(cloud: StubCloud, queue: Queue) -> None:
    with queue(600) as queued:
        cloud.break_after = 6
        queued.uploader.carry(queued.id)
        queued.ends()
        assert cloud.break_after is None
        assert _complete(cloud, 600)
        sequences = [sent.first_sequence for sent in cloud.received["UploadExamples"]]
        assert len(sequences) == len(set(sequences))  # nothing was sent again


def test_a_cloud_that_is_down_is_waited_for(cloud: StubCloud, queued: Queued) -> None:
    cloud.stop()
    queued.uploader.resume()
    queued.says("does not answer")
    assert queued.kept.state == UPLOADING
    cloud.start()
    queued.ends()
    assert queued.kept.message == ""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("CreateJob", NotReady("no GPU here", fix="take lora", subject="training.method")),
        ("UploadExamples", QuotaExceeded("too many", fix="send fewer", subject="examples")),
        ("UploadExamples", QuotaExceeded("too large", fix="send fewer", subject="upload_bytes")),
    ],
)
def test_what_waiting_cannot_mend_is_told_with_its_fix(
    cloud: StubCloud, queued: Queued, call: str, error: SottovoceError
) -> None:
    cloud.refuses[call] = error
    queued.uploader.resume()
    queued.ends(FAILED)
    assert queued.kept.message == str(error)


class _Counted(dict[str, SottovoceError]):
    """Counts how often a call is refused."""

    times = 0

    def __getitem__(self, call: str) -> SottovoceError:
        self.times += 1
        return super().__getitem__(call)


def test_a_refusal_while_the_disk_is_full_is_noted_once_there_is_room(
    tmp_path: Path, cloud: StubCloud, queue: Queue
) -> None:
    if lacking := no_mounts():
        pytest.skip(lacking)
    with (
        in_memory(tmp_path / "disk", 8) as disk,
        queue(SOTTO_AGENT_STATE=str(disk.folder)) as queued,
    ):
        cloud.refuses = refuses = _Counted(CreateJob=InvalidInput("never", fix="give up"))
        queued.device.store.overwrite()  # so that its log has no room of its own left
        disk.fill()
        queued.uploader.carry(queued.id)
        until(lambda: refuses.times > 5)
        assert queued.kept.state == UPLOADING
        disk.free()
        queued.ends(FAILED)
        assert queued.device.outbox.unfinished() == []


class _Twice(dict[str, SottovoceError]):
    """Refuses a call as often, and then no more."""

    left = 2

    def __contains__(self, call: object) -> bool:
        return self.left > 0 and super().__contains__(call)

    def __getitem__(self, call: str) -> SottovoceError:
        self.left -= 1
        return super().__getitem__(call)


@pytest.mark.parametrize("call", ["CreateJob", "UploadExamples", "StartJob"])
def test_what_was_lost_on_the_way_is_sent_again(
    cloud: StubCloud, queued: Queued, call: str
) -> None:
    cloud.refuses = _Twice({call: InvalidInput("the request is not a message of this method")})
    queued.uploader.carry(queued.id)
    queued.ends()


def test_a_cloud_with_too_many_unfinished_jobs_is_waited_for(
    cloud: StubCloud, queued: Queued
) -> None:
    cloud.refuses["CreateJob"] = QuotaExceeded("20 jobs", subject="unfinished_jobs")
    queued.uploader.resume()
    queued.says("waiting: 20 jobs")
    del cloud.refuses["CreateJob"]
    queued.ends()


def test_a_cloud_lost_during_training_is_found_again(cloud: StubCloud, queued: Queued) -> None:
    cloud.may_train.clear()
    queued.uploader.carry(queued.id)
    queued.ends(agent.CUSTOMIZATION_STATE_TRAINING)
    cloud.stop()
    queued.says("waiting")
    cloud.may_train.set()
    cloud.start()
    queued.ends()
    assert len(cloud.jobs) == 1


def test_a_wrong_token_is_waited_out_until_it_is_mended(tmp_path: Path, queued: Queued) -> None:
    right = (tmp_path / "token").read_text()
    (tmp_path / "token").write_text("wrong")
    queued.uploader.carry(queued.id)
    queued.says("wrong token")
    (tmp_path / "token").write_text(right)
    queued.ends()


def test_a_job_that_failed_says_why_and_gives_its_space_back(
    cloud: StubCloud, queued: Queued
) -> None:
    names = queued.device.outbox.pseudonyms(queued.kept)
    (label,) = [sent for sent, own in names.labels.items() if own == "a"]
    cloud.fail_training = f"{names.adapter_id}: label {label} is too rare"
    queued.uploader.carry(queued.id)
    queued.ends(FAILED)
    assert queued.kept.message == "desk: label a is too rare"
    assert queued.device.store.rows("SELECT * FROM outbox") == []


def test_a_job_deleted_in_the_cloud_fails_here(queued: Queued) -> None:
    record = queued.kept
    record.job_id = "gone"
    queued.device.outbox.save(record)
    queued.uploader.carry(queued.id)
    queued.ends(FAILED)
    assert "no such job" in queued.kept.message


def _resumed(queued: Queued, tagger: Tagger) -> None:
    """A new process carries on, to the end."""
    with opened(queued.device.config, tagger) as device:
        again = Queued(device, queued.id, _uploader(device))
        again.uploader.resume()
        again.ends()
        again.uploader.stop()


def test_stopping_keeps_everything_for_the_next_start(
    cloud: StubCloud, queue: Queue, lexicon_tagger: Tagger
) -> None:
    cloud.may_train.clear()
    with queue() as queued:
        queued.uploader.carry(queued.id)
        until(lambda: cloud.jobs and len(cloud.examples()) == 20)
    cloud.may_train.set()
    _resumed(queued, lexicon_tagger)
    assert len(cloud.jobs) == 1
    assert _complete(cloud, 20)


def test_killed_in_mid_upload_each_example_still_arrives_once(
    cloud: StubCloud, queue: Queue, lexicon_tagger: Tagger
) -> None:
    """kill -9 of the process that carries, at three points of the upload."""
    with queue(600) as queued:
        config = queued.device.config
    program = textwrap.dedent(f"""
        import os, pathlib, sys, time
        from sottovoce.edge.client.cloud import Cloud
        from sottovoce.edge.config import CloudConfig
        from sottovoce.edge.tasks.uploader import Uploader
        from sottovoce.edge.state.outbox import Outbox
        from sottovoce.edge.state.database import Store
        cloud = Cloud(CloudConfig(
            {cloud.address!r}, "t", pathlib.Path({str(config.cloud.token_file)!r})))
        outbox = Outbox(Store.open(pathlib.Path({str(config.agent.state)!r})))
        Uploader(cloud, outbox).resume()
        while outbox.get({queued.id!r}).uploaded < int(sys.argv[1]):
            time.sleep(0.0005)
        os.kill(os.getpid(), 9)
    """)
    for uploaded in ("0", "1", "300"):
        killed = subprocess.run([sys.executable, "-c", program, uploaded], check=False)
        assert killed.returncode == -9
    _resumed(queued, lexicon_tagger)
    assert len(cloud.jobs) == 1
    assert _complete(cloud, 600)


@pytest.mark.parametrize(
    "settings",
    [{"label_words": True}, {"task": training.TASK_GENERATION}, {"reconstruction": True}],
)
def test_the_record_holds_all_that_is_carried(
    settings: dict[str, Any],
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    cloud: StubCloud,
) -> None:
    writes = "task" in settings
    examples = [
        agent.LabelledText(
            text=f"The river {n} was cold",
            label="" if writes else ("wet", "dry")[n % 2],
            output="It was a pond" if writes else "",
        )
        for n in range(10)
    ]
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
    with opened(config, lexicon_tagger) as device:
        asked = customizer(device).accept(wanted(**settings), examples)
        record = Record(on=True)
        queued = Queued(device, asked.id, _uploader(device, record))
        queued.uploader.carry(queued.id)
        queued.ends()
        queued.uploader.stop()
        (left,) = record.recent()
    sent = [
        (each.label, each.released_text, *each.released_plain_tokens, each.released_output)
        for each in cloud.examples()
    ]
    assert left.text == "\n".join(text for each in sent for text in each if text)
    assert len(sent) == 10
