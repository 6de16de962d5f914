"""`sotto customize`: from a table to an adapter."""

from __future__ import annotations

import json
import threading

import pytest

from sottovoce.core.rpc import training_settings
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import running
from tests.support.stub_cloud import StubCloud
from tests.support.waiting import until

from .conftest import Device

ROWS = ["the river in the garden\twet", "the stone in the garden\tdry"] * 10


def _table(device: Device, rows: list[str] = ROWS, header: str = "text\tlabel") -> str:
    file = device.folder / "train.tsv"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(file)


def test_a_table_becomes_an_adapter(linked: Device, cloud: StubCloud) -> None:
    options = ["--level", "light", "--reconstruction", "--plain-tokens", "2", "--epochs", "4"]
    with running(linked.config):
        (done,) = linked.json(
            "customize", "desk", "--input", _table(linked), *options, "--seed", "7"
        )
        assert (done["state"], done["examples"], done["uploaded"]) == ("ready", 20, 20)
        assert done["held_out_accuracy"] == 0.875
        (answer,) = linked.json("predict", "desk", "the river")
        assert answer["label"] == "wet"
        assert [s["label"] for s in answer["scores"]] == ["wet", "dry"]
        assert answer["released_text"]
    settings = cloud.jobs[0].training
    assert (settings.epochs, settings.seed, settings.plain_tokens) == (4, 7, 2)
    assert settings.reconstruction
    assert cloud.jobs[0].release.level == "light"
    assert all(len(e.plain_token_ids) == 2 for e in cloud.examples())


def test_inputs_and_outputs_become_an_adapter_that_writes(linked: Device, cloud: StubCloud) -> None:
    table = _table(linked, ["the river, Anna\tAnna has a garden"] * 10, "input\toutput")
    with running(linked.config):
        (done,) = linked.json("customize", "desk", "--input", table, "--method", "prompt")
    assert done["state"] == "ready"
    settings = cloud.jobs[0].training
    assert settings.task == training.TASK_GENERATION
    assert settings.method == training.METHOD_PROMPT_TUNING
    assert all(e.released_output.split()[1:3] == ["has", "a"] for e in cloud.examples())


def test_the_method_and_its_settings_are_options(linked: Device, cloud: StubCloud) -> None:
    options = ["--method", "prefix", "--virtual-tokens", "5", "--label-words"]
    options += ["--learning-rate", "0.01", "--batch-size", "4", "--reconstruction"]
    options += ["--plain-sequences", "1", "--plain-vocabulary", "20", "--plain-sampling", "uniform"]
    options += ["--reconstruction-width", "32", "--reconstruction-weight", "0.5"]
    with running(linked.config):
        linked.json("customize", "desk", "--input", _table(linked), *options)
    settings = cloud.jobs[0].training
    assert settings.method == training.METHOD_PREFIX_TUNING
    assert (settings.virtual_tokens, settings.batch_size, settings.learning_rate) == (5, 4, 0.01)
    assert settings.label_words
    assert (settings.reconstruction_width, settings.reconstruction_weight) == (32, 0.5)
    assert len({tuple(e.plain_token_ids) for e in cloud.examples()}) == 1


def test_a_later_option_takes_every_switch_back(linked: Device, cloud: StubCloud) -> None:
    fields = training.TrainingSettings.DESCRIPTOR.fields_by_name
    named = [fields[field.name] for field in training_settings.FIELDS]
    switches = [f.name.replace("_", "-") for f in named if f.cpp_type == f.CPPTYPE_BOOL]
    assert "reconstruction" in switches
    options = [option for name in switches for option in (f"--{name}", f"--no-{name}")]
    with running(linked.config):
        linked.json("customize", "desk", "--input", _table(linked), *options)
    settings = cloud.jobs[0].training
    assert not any(getattr(settings, name.replace("-", "_")) for name in switches)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "prefix", "--rank", "4"], "a rank without LoRA"),
        (["--method", "full", "--virtual-tokens", "4"], "without a prompt or a prefix"),
        (["--pate", "none.txt"], "PATE without an epsilon"),
        (["--plain-sequences", "4"], "plain sequences without reconstruction"),
        (["--plain-tokens", "4"], "plain tokens without reconstruction"),
        (["--reconstruction-width", "4"], "reconstruction width without reconstruction"),
    ],
)
def test_options_that_contradict_one_another_are_refused_at_once(
    device: Device, options: list[str], said: str
) -> None:
    # Neither a daemon nor the table is needed to say so.
    result = device.sotto("customize", "desk", "--input", "none.tsv", *options, code=2)
    assert said in result.stderr
    assert "fix:" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--learning-rate", "3"], "not in the range 0.0<=x<=0.1"),
        (["--epochs", "201"], "not in the range 0<=x<=200"),
    ],
)
def test_options_too_large_for_any_cloud_name_the_range(
    device: Device, options: list[str], said: str
) -> None:
    result = device.sotto("customize", "desk", "--input", "none.tsv", *options, code=2)
    assert said in result.stderr


def test_a_seed_too_large_for_the_wire_is_refused_in_words(device: Device) -> None:
    result = device.sotto("customize", "desk", "--input", "none.tsv", "--seed", str(2**64), code=2)
    assert "--seed" in result.stderr
    assert "Traceback" not in result.stderr


def test_pate_takes_a_file_of_public_texts(linked: Device, cloud: StubCloud) -> None:
    public = linked.folder / "public.txt"
    public.write_text("\n\n".join(f"the stone by the river {n}" for n in range(32)), "utf-8")
    options = ["--pate", str(public), "--dp-epsilon", "2", "--dp-few-examples"]
    with running(linked.config):
        (done,) = linked.json("customize", "desk", "--input", _table(linked), *options)
    assert done["examples"] == 52
    assert cloud.jobs[0].training.pate
    assert sum(not e.label for e in cloud.examples()) == 32


def test_the_same_again_waits_for_what_is_on_its_way(linked: Device, cloud: StubCloud) -> None:
    cloud.may_train.clear()
    asked = ("customize", "desk", "--input", _table(linked), "--no-watch")
    with running(linked.config):
        (first,) = linked.json(*asked)
        (again,) = linked.json(*asked)
        linked.json(*asked, "--epochs", "3", code=3)  # the name is taken
        (other,) = linked.json(*asked, "--epochs", "3", "--replace")
        assert first["id"] == again["id"] != other["id"]
        cloud.may_train.set()
        until(lambda: {"ready"} == _states(linked))
        linked.json(*asked, code=3)
        (anew,) = linked.json(*asked, "--replace")
        assert anew["id"] not in (first["id"], other["id"])
        until(lambda: len(cloud.jobs) == 3)


def _states(device: Device) -> set[str]:
    return {one["state"] for one in device.json("status")[0]["customizations"]}


def test_progress_is_told_on_standard_error(linked: Device) -> None:
    with running(linked.config):
        result = linked.sotto("customize", "desk", "--input", _table(linked), "--epochs", "2")
    assert result.stdout.startswith("desk (")
    assert result.stdout.endswith("ready, held-out accuracy 87.5%\n")
    assert "uploaded" in result.stderr
    assert "held-out accuracy 87.5%" in result.stderr


def test_a_failed_training_is_an_error(linked: Device, cloud: StubCloud) -> None:
    cloud.fail_training = "out of memory"
    with running(linked.config):
        result = linked.sotto("customize", "desk", "--input", _table(linked), "--json", code=3)
    assert json.loads(result.stdout)["state"] == "failed"
    assert "out of memory" in json.loads(result.stderr)["error"]["problem"]


def test_a_daemon_is_needed(linked: Device) -> None:
    result = linked.sotto("customize", "desk", "--input", _table(linked), code=3)
    assert "sotto serve" in result.stderr


def test_an_agent_that_ends_meanwhile_loses_nothing(linked: Device, cloud: StubCloud) -> None:
    cloud.may_train.clear()
    arguments = ["customize", "desk", "--input", _table(linked)]
    codes: list[str] = []
    with running(linked.config):
        command = threading.Thread(
            target=lambda: codes.append(linked.sotto(*arguments, code=6).stderr)
        )
        command.start()
        until(lambda: cloud.jobs and len(cloud.examples()) == 20)
    command.join(60)
    assert "the agent is stopping" in codes[0]
    cloud.may_train.set()
    with running(linked.config):
        until(lambda: linked.json("status")[0]["customizations"][0]["state"] == "ready")
    assert len(cloud.jobs) == 1
