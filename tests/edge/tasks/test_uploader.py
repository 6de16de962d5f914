"""Carrying to the cloud: every example once, through breaks, restarts and refusals."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import InvalidInput, NotReady, QuotaExceeded, SottovoceError
from sottovoce.core.rpc.streams import padded_size
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.record import Record
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, customizer, opened, wanted
from tests.support.fake_cloud import FakeCloud, fake_cloud
from tests.support.full_disk import in_memory, no_mounts
from tests.support.waiting import until

SUCCEEDED = agent.CUSTOMIZATION_STATE_SUCCEEDED
FAILED = agent.CUSTOMIZATION_STATE_FAILED


@contextmanager
def _queued(
    folder: Path,
    bundle: Path,
    tagger: Tagger,
    cloud: FakeCloud,
    number: int = 600,
    **environ: str,
) -> Iterator[tuple[Parts, str]]:
    """An agent's parts with one customisation in the outbox."""
    config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address, **environ)
    with opened(config, tagger) as device:
        examples = (
            agent.LabelledText(text=f"The river {n} was cold", label="ab"[n % 2])
            for n in range(number)
        )
        settings = wanted(adapter="desk", epochs=2)
        record = customizer(device).accept(settings, examples)
        yield device, record.id


def _uploader(device: Parts) -> Uploader:
    return Uploader(device.cloud, device.outbox, first_wait=0.02)


def _complete(cloud: FakeCloud, number: int) -> bool:
    held = cloud.examples()
    return len(held) == number == len({example.example_id for example in held})


def test_examples_arrive_once_and_the_end_is_told(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud) as (device, identity),
    ):
        uploader = _uploader(device)
        uploader.carry(identity)
        uploader.carry(identity)  # twice is once
        seen = list(device.outbox.watch(identity, lambda: False))
        assert seen[-1].state == SUCCEEDED
        assert seen[-1].uploaded == 600
        assert (seen[-1].progress.epoch, seen[-1].progress.epochs) == (2, 2)
        assert seen[-1].progress.held_out_accuracy == 0.875
        assert seen[-1].bytes_sent > sum(e.ByteSize() for e in cloud.examples())
        assert _complete(cloud, 600)
        assert len(cloud.sequences) == len(set(cloud.sequences))
        assert device.store.rows("SELECT * FROM outbox") == []
        uploader.stop()
        assert all(padded_size(sent.ByteSize()) == sent.ByteSize() for sent in cloud.uploads)
        spare = sum(len(sent.padding) for sent in cloud.uploads)
        assert spare < 0.125 * sum(sent.ByteSize() for sent in cloud.uploads)


def test_a_broken_upload_goes_on_from_what_is_committed(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud) as (device, identity),
    ):
        cloud.break_after = 6
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        assert cloud.break_after is None
        assert _complete(cloud, 600)
        assert len(cloud.sequences) == len(set(cloud.sequences))  # nothing was sent again
        uploader.stop()


def test_a_cloud_that_is_down_is_waited_for(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        cloud.stop()
        uploader = _uploader(device)
        uploader.resume()
        until(lambda: "does not answer" in device.outbox.get(identity).message)
        assert device.outbox.get(identity).state == agent.CUSTOMIZATION_STATE_UPLOADING
        cloud.start()
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        assert device.outbox.get(identity).message == ""
        uploader.stop()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("CreateJob", NotReady("no GPU here", fix="take lora", subject="training.method")),
        ("UploadExamples", QuotaExceeded("too many", fix="send fewer", subject="examples")),
        ("UploadExamples", QuotaExceeded("too large", fix="send fewer", subject="upload_bytes")),
    ],
)
def test_what_waiting_cannot_mend_is_told_with_its_fix(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    call: str,
    error: SottovoceError,
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        cloud.refuses[call] = error
        uploader = _uploader(device)
        uploader.resume()
        until(lambda: device.outbox.get(identity).state == FAILED)
        assert device.outbox.get(identity).message == str(error)
        uploader.stop()


class _Counted(dict[str, SottovoceError]):
    """Counts how often a call is refused."""

    times = 0

    def __getitem__(self, call: str) -> SottovoceError:
        self.times += 1
        return super().__getitem__(call)


def test_a_refusal_while_the_disk_is_full_is_noted_once_there_is_room(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    if lacking := no_mounts():
        pytest.skip(lacking)
    with (
        fake_cloud() as cloud,
        in_memory(tmp_path / "disk", 8) as disk,
        _queued(
            *(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20),
            SOTTO_AGENT_STATE=str(disk.folder),
        ) as (device, identity),
    ):
        cloud.refuses = refuses = _Counted(CreateJob=InvalidInput("never", fix="give up"))
        device.store.overwrite()  # so that its log has no room of its own left
        disk.fill()
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: refuses.times > 5)
        assert device.outbox.get(identity).state == agent.CUSTOMIZATION_STATE_UPLOADING
        disk.free()
        until(lambda: device.outbox.get(identity).state == FAILED)
        assert device.outbox.unfinished() == []
        uploader.stop()


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
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, call: str
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        cloud.refuses = _Twice({call: InvalidInput("the request is not a message of this method")})
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        uploader.stop()


def test_a_cloud_with_too_many_unfinished_jobs_is_waited_for(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        cloud.refuses["CreateJob"] = QuotaExceeded("20 jobs", subject="unfinished_jobs")
        uploader = _uploader(device)
        uploader.resume()
        until(lambda: "waiting: 20 jobs" in device.outbox.get(identity).message)
        del cloud.refuses["CreateJob"]
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        uploader.stop()


def test_a_cloud_lost_during_training_is_found_again(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        cloud.may_train.clear()
        uploader = _uploader(device)
        uploader.carry(identity)
        training = agent.CUSTOMIZATION_STATE_TRAINING
        until(lambda: device.outbox.get(identity).state == training)
        cloud.stop()
        until(lambda: "waiting" in device.outbox.get(identity).message)
        cloud.may_train.set()
        cloud.start()
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        assert len(cloud.jobs) == 1
        uploader.stop()


def test_a_wrong_token_is_waited_out_until_it_is_mended(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        right = (tmp_path / "token").read_text()
        (tmp_path / "token").write_text("wrong")
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: "wrong token" in device.outbox.get(identity).message)
        (tmp_path / "token").write_text(right)
        until(lambda: device.outbox.get(identity).state == SUCCEEDED)
        uploader.stop()


def test_a_job_that_failed_says_why_and_gives_its_space_back(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        names = device.outbox.pseudonyms(device.outbox.get(identity))
        (label,) = [sent for sent, own in names.labels.items() if own == "a"]
        cloud.fail_training = f"{names.adapter_id}: label {label} is too rare"
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: device.outbox.get(identity).state == FAILED)
        assert device.outbox.get(identity).message == "desk: label a is too rare"
        assert device.store.rows("SELECT * FROM outbox") == []
        uploader.stop()


def test_a_job_deleted_in_the_cloud_fails_here(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        fake_cloud() as cloud,
        _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (device, identity),
    ):
        record = device.outbox.get(identity)
        record.job_id = "gone"
        device.outbox.save(record)
        uploader = _uploader(device)
        uploader.carry(identity)
        until(lambda: device.outbox.get(identity).state == FAILED)
        assert "no such job" in device.outbox.get(identity).message
        uploader.stop()


def test_stopping_keeps_everything_for_the_next_start(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with fake_cloud() as cloud:
        cloud.may_train.clear()
        config = None
        with _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud, 20) as (
            device,
            identity,
        ):
            config = device.config
            uploader = _uploader(device)
            uploader.carry(identity)
            until(lambda: cloud.jobs and len(cloud.examples()) == 20)
            uploader.stop()
        cloud.may_train.set()
        with opened(config, lexicon_tagger) as device:
            uploader = _uploader(device)
            uploader.resume()
            until(lambda: device.outbox.get(identity).state == SUCCEEDED)
            uploader.stop()
        assert len(cloud.jobs) == 1
        assert _complete(cloud, 20)


def test_killed_in_mid_upload_each_example_still_arrives_once(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    """kill -9 of the process that carries, at three points of the upload."""
    with fake_cloud() as cloud:
        with _queued(tmp_path, small_bundle_folder, lexicon_tagger, cloud) as (device, identity):
            config = device.config
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
            while outbox.get({identity!r}).uploaded < int(sys.argv[1]):
                time.sleep(0.0005)
            os.kill(os.getpid(), 9)
        """)
        for uploaded in ("0", "1", "300"):
            killed = subprocess.run([sys.executable, "-c", program, uploaded], check=False)
            assert killed.returncode == -9
        with opened(config, lexicon_tagger) as device:
            uploader = _uploader(device)
            uploader.resume()
            until(lambda: device.outbox.get(identity).state == SUCCEEDED)
            uploader.stop()
        assert len(cloud.jobs) == 1
        assert _complete(cloud, 600)


@pytest.mark.parametrize(
    "settings",
    [{"label_words": True}, {"task": training.TASK_GENERATION}, {"reconstruction": True}],
)
def test_the_record_holds_all_that_is_carried(
    settings: dict[str, Any], tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
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
    with fake_cloud() as cloud:
        config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        with opened(config, lexicon_tagger) as device:
            asked = wanted(**settings)
            identity = customizer(device).accept(asked, examples).id
            record = Record(on=True)
            uploader = Uploader(device.cloud, device.outbox, record, first_wait=0.02)
            uploader.carry(identity)
            until(lambda: device.outbox.get(identity).state == SUCCEEDED)
            uploader.stop()
            (left,) = record.recent()
    sent = [
        (each.label, each.released_text, *each.released_plain_tokens, each.released_output)
        for each in cloud.examples()
    ]
    assert left.text == "\n".join(text for each in sent for text in each if text)
    assert len(sent) == 10
