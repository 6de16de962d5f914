"""Every command explains itself, speaks JSON, and fails with a reason and a fix."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.api import server
from sottovoce.cloud.cli import COMMANDS, main
from sottovoce.cloud.config import ServerLimits, Settings
from sottovoce.cloud.job import Progress, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease, Queue
from sottovoce.cloud.store import check_objects, open_database
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.cloud.tenants.credentials import Codes, Credentials, Scope, hashed
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import Unauthenticated
from sottovoce.models.cli import main as sotto_models
from tests.support.caller import credentials
from tests.support.examples import RELEASE
from tests.support.jobs import claim, opened, queued
from tests.support.stores import FileStore


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def job_id(tmp_path: Path) -> str:
    """A job in the state folder."""
    database = SqliteDatabase(tmp_path)
    Tenants(database).enroll("acme")
    job = Jobs(database).create("acme", "r", "topics", TrainingOptions(), RELEASE)
    database.close()
    return job.id


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith("Usage:")
    if command not in ("jobs", "tenants", "tokens", "bundles"):
        assert "--json" in out


def test_subcommands_have_help_and_json() -> None:
    groups = {
        "bundles": ("publish", "list", "delete"),
        "jobs": ("list", "show", "cancel", "delete"),
        "tenants": ("list", "disable", "enable", "revoke"),
        "tokens": ("list", "new", "code", "revoke"),
    }
    for group, command in ((g, c) for g, commands in groups.items() for c in commands):
        code, out, _ = run(group, command, "--help")
        assert code == 0
        assert "--json" in out


def test_a_mistyped_command_is_recognised() -> None:
    assert "did you mean" in run("servee")[2]


def test_enroll_prints_a_token_that_works(tmp_path: Path) -> None:
    code, out, _ = run("enroll", "acme", "--state", tmp_path, "--json")
    assert code == 0
    told = json.loads(out)
    database = SqliteDatabase(tmp_path)
    assert Tenants(database).authenticate(credentials("acme", told["token"])) == "acme"
    database.close()


def test_enroll_writes_a_private_token_file(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "token"
    code, out, _ = run("enroll", "acme", "--state", tmp_path, "--token-file", file, "--json")
    assert code == 0
    token = file.read_text().strip()
    assert token not in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, _, _ = run("enroll", "acme", "--state", tmp_path, "--token-file", file, "--renew")
    assert code == 0
    assert file.read_text().strip() != token


def test_tokens_are_made_listed_replaced_and_revoked(tmp_path: Path) -> None:
    state = ("--state", tmp_path)
    run("enroll", "acme", *state)
    made = run("tokens", "new", "acme", "--name", "pi", "--scope", "predict", *state, "--json")
    told = json.loads(made[1])
    database = SqliteDatabase(tmp_path)
    metadata = credentials("acme", told["token"])
    assert Tenants(database).admit(metadata, Scope.PREDICT) == "acme"
    file = tmp_path / "pi.token"
    replaced = ("--replace", "--ends-in", "90d", "--token-file", file)
    assert run("tokens", "new", "acme", "--name", "pi", *replaced, *state)[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = json.loads(run("tokens", "list", "acme", *state, "--json")[1])["tokens"]
    assert [(t["name"], t["scope"], t["state"]) for t in listed] == [
        ("first", "all", "valid"),
        ("pi", "predict", "valid"),
        ("pi", "predict", "valid"),
    ]
    created, old_ends, ends = (
        datetime.fromisoformat(t)
        for t in (listed[2]["created"], listed[1]["ends"], listed[2]["ends"])
    )
    assert (old_ends - created, ends - created) == (timedelta(hours=1), timedelta(days=90))
    assert file.read_text().strip() not in run("tokens", "list", *state)[1]
    assert json.loads(run("tokens", "revoke", "acme", "pi", *state, "--json")[1])["revoked"] == 2
    with pytest.raises(Unauthenticated, match="revoked"):
        Tenants(database).authenticate(metadata)
    database.close()
    code, _, err = run("tokens", "revoke", "acme", "pi", *state)
    assert code == 4
    assert "tokens list acme" in err
    for wrong in (("--grace", "1h"), ("--ends-in", "soon"), ("--ends-in", "0d")):
        assert run("tokens", "new", "acme", "--name", "tv", *wrong, *state)[0] == 2


def test_a_code_is_printed_and_lets_a_device_in(tmp_path: Path) -> None:
    state = ("--state", tmp_path)
    run("enroll", "acme", *state)
    told = json.loads(run("tokens", "code", "acme", "--name", "pi", *state, "--json")[1])
    assert (told["tenant"], told["name"], told["seconds"]) == ("acme", "pi", 600.0)
    said = run("tokens", "code", "acme", "--name", "tv", "--valid", "1h", *state)[1].strip()
    database = SqliteDatabase(tmp_path)
    for code, name in ((told["code"], "pi"), (said, "tv")):
        assert Codes(database).redeem(code, hashed(name)).name == name
    database.close()


def test_tenants_are_listed_shut_out_and_let_in(tmp_path: Path) -> None:
    state = ("--state", tmp_path)
    for name in ("acme", "other"):
        run("enroll", name, *state)
    assert json.loads(run("tenants", "disable", "acme", *state, "--json")[1])["state"] == "disabled"
    listed = json.loads(run("tenants", "list", *state, "--json")[1])["tenants"]
    assert [(t["name"], t["state"], t["tokens"]) for t in listed] == [
        ("acme", "disabled", 1),
        ("other", "enabled", 1),
    ]
    assert "disabled" in run("tenants", "list", *state)[1]
    assert run("tenants", "enable", "acme", *state)[0] == 0
    assert json.loads(run("tenants", "revoke", "acme", *state, "--json")[1])["revoked"] == 1
    assert run("tenants", "disable", "nobody", *state)[0] == 2
    told = json.loads(run("audit-log", *state, "--tenant", "acme", "--json")[1])["acts"]
    assert [act["what"] for act in told] == [
        "token revoked", "tenant enabled", "tenant disabled", "tenant enrolled",
    ]  # fmt: skip
    assert "tenant enabled" in run("audit-log", *state)[1]


def test_errors_name_the_fix_in_both_forms(tmp_path: Path) -> None:
    run("enroll", "acme", "--state", tmp_path)
    code, out, err = run("enroll", "acme", "--state", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: tenant 'acme' exists\n  fix: ")
    code, _, err = run("enroll", "acme", "--state", tmp_path, "--json")
    assert code == 2
    assert json.loads(err)["error"]["subject"] == "tenant"


def test_jobs_are_listed_shown_cancelled_and_deleted(tmp_path: Path, job_id: str) -> None:
    state = ("--state", tmp_path)
    listed = json.loads(run("jobs", "list", *state, "--json")[1])["jobs"]
    assert [job["id"] for job in listed] == [job_id]
    assert job_id in run("jobs", "list", *state)[1]
    assert json.loads(run("jobs", "list", *state, "--tenant", "x", "--json")[1]) == {"jobs": []}
    shown = json.loads(run("jobs", "show", job_id, *state, "--json")[1])
    assert (shown["state"], shown["tenant"]) == ("uploading", "acme")
    assert "uploading" in run("jobs", "show", job_id, *state)[1]
    assert json.loads(run("jobs", "cancel", job_id, *state, "--json")[1])["state"] == "cancelled"
    assert json.loads(run("jobs", "delete", job_id, *state, "--json")[1])["deleted"] is True
    acts = json.loads(run("audit-log", *state, "--json")[1])["acts"]
    assert [(act["what"], act["detail"]) for act in acts[:2]] == [
        ("job deleted", job_id),
        ("job cancelled", job_id),
    ]
    code, _, err = run("jobs", "show", job_id, *state)
    assert code == 4
    assert "no such job" in err


def test_jobs_show_how_training_goes(tmp_path: Path, job_id: str) -> None:
    database = SqliteDatabase(tmp_path)
    progress = Progress(2, 8, 30, 120, 0.4321, 6.25, 0.875, 210.4, 12.6)
    with database.write() as transaction:
        transaction.change("UPDATE jobs SET state = 'RUNNING'")
    Queue(database).report(Lease(job_id, 0), progress, 33.3)
    database.close()
    state = ("--state", tmp_path)
    shown = json.loads(run("jobs", "show", job_id, *state, "--json")[1])
    expected = {
        "method": "lora",
        "epoch": 2,
        "epochs": 8,
        "step": 30,
        "steps": 120,
        "loss": 0.4321,
        "reconstruction_loss": 6.25,
        "held_out_accuracy": 0.875,
        "examples_per_second": 210.4,
        "seconds_left": 12.6,
        "seconds_trained": 33.3,
    }
    assert {name: shown[name] for name in expected} == expected
    said = run("jobs", "show", job_id, *state)[1]
    assert "reconstruction loss 6.25" in said
    listed = " ".join(run("jobs", "list", *state)[1].split())
    for figure in ("epoch 2/8", "rec 6.25", "87.5%", "210 examples/s"):
        assert figure in listed


def test_a_tenants_limits_are_shown_changed_and_taken_back(tmp_path: Path) -> None:
    run("enroll", "acme", "--state", tmp_path)
    limit = ("limit", "acme", "--state", tmp_path)
    code, out, _ = run(*limit, "examples=500", "training_seconds=60", "--json")
    assert code == 0
    told = {"tenant": "acme", "limits": {"examples": 500, "training_seconds": 60}}
    in_force = asdict(ServerLimits(**told["limits"]))
    told["in_force"] = {name: in_force[name] for name in quotas.CHANGEABLE}
    assert json.loads(out) == told
    assert json.loads(run(*limit, "--json")[1]) == told
    lines = run(*limit)[1].splitlines()
    assert "500 examples a job" in lines[1]
    assert f"{ServerLimits().unfinished_jobs} jobs" in lines[4]
    run(*limit, "examples=")
    assert json.loads(run(*limit, "--json")[1])["limits"] == {"training_seconds": 60}
    for wrong in ("examples", "examples=0", "examples=x", "colour=3"):
        code, _, err = run(*limit, wrong)
        assert code == 2
        assert "fix:" in err
    code, _, err = run("limit", "nobody", "--state", tmp_path)
    assert code == 2
    assert "enroll" in err


def test_serve_takes_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Settings] = []
    monkeypatch.setattr(server, "serve", lambda settings, *_: started.append(settings))
    options = ["--limit-examples", 5, "--limit-upload-bytes", 6, "--limit-training-seconds", 7]
    options += ["--limit-unfinished-jobs", 8, "--limit-held-bytes", 9, "--limit-past-jobs", 10]
    run("serve", "--bundle", tmp_path, "--state", tmp_path, *options)
    run("serve", "--bundle", tmp_path, "--state", tmp_path)
    assert started[0].limits == ServerLimits(
        examples=5,
        upload_bytes=6,
        training_seconds=7,
        unfinished_jobs=8,
        held_bytes=9,
        past_jobs=10,
    )
    assert started[1].limits == ServerLimits()


def test_serve_takes_what_predictions_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Settings] = []
    monkeypatch.setattr(server, "serve", lambda settings, *_: started.append(settings))
    common = ("serve", "--bundle", tmp_path, "--state", tmp_path)
    options = ("--adapter-memory", 3, "--precision", "bfloat16", "--metrics", "127.0.0.1:9464")
    run(*common, *options)
    run(*common)
    chosen = [(s.adapter_memory, s.precision, s.metrics) for s in started]
    assert chosen == [(3 << 20, "bfloat16", "127.0.0.1:9464"), (1 << 30, "auto", "")]


def test_serve_refuses_plaintext_in_public_and_a_missing_bundle(tmp_path: Path) -> None:
    state = ("--state", tmp_path / "s")
    code, _, err = run("serve", "--bundle", tmp_path, *state, "--listen", "0.0.0.0:0")
    assert code == 78
    assert "--tls-cert" in err
    code, _, err = run("serve", "--bundle", tmp_path / "none", *state)
    assert code == 3
    assert "no bundle at" in err


def test_a_bundle_cannot_be_built_without_the_models(tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    code, _, err = run("build-bundle", "--models", tmp_path, "--out", out, "--json")
    assert code != 0
    assert json.loads(err)["error"]["fix"]
    assert not out.exists()


def test_building_without_hnswlib_says_that_graphs_were_not_tried(
    small_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("sottovoce.models.bundle")
    monkeypatch.setattr(module, "build", lambda *_, **__: small_bundle.manifest)
    command = ("build-bundle", "--out", tmp_path / "bundle")
    for library, tried in ((None, False), (json, True)):
        monkeypatch.setitem(sys.modules, "hnswlib", library)
        code, told, _ = run(*command)
        assert code == 0
        assert ("sottovoce-models[graph]" in told) is not tried
        assert json.loads(run(*command, "--json")[1])["graphs_tried"] is tried
        assert "[graph]" not in run(*command, "--index", "exact")[1]


@pytest.mark.parametrize(
    "command",
    [("jobs", "list"), ("jobs", "show", "x"), ("limit", "acme"), ("enroll", "acme", "--renew")],
)
def test_a_mistyped_state_folder_is_told_from_an_empty_one(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    code, _, err = run(*command, "--state", tmp_path / "typo")
    assert code == 4
    assert "sotto-cloud serve" in err
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("topic", ["tenants", "status"])
def test_commands_on_the_state_load_no_torch(topic: str) -> None:
    code = (
        f"import sys; import sottovoce.cloud.cli.{topic}; import sottovoce.cloud.jobs.ending; "
        "import sottovoce.cloud.jobs.queue; import sottovoce.cloud.jobs.uploads; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "sottovoce" in loaded
    assert not {"torch", "transformers", "peft", "safetensors", "numpy"} & set(loaded)


def test_a_worker_without_a_job_loads_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sottovoce.cloud.training.worker import Worker; "
        f"worker = Worker(Path({str(tmp_path)!r}), 'none', threads=1); print(worker.run_next()); "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    ran, *loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert ran == "False"
    assert not {"torch", "transformers", "peft"} & set(loaded)


def test_jobs_are_not_deleted_where_their_files_are_not(
    tmp_path: Path, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOTTO_CLOUD_OBJECTS", raising=False)
    objects, state = (tmp_path / "kept").as_uri(), ("--state", tmp_path)
    with closing(open_database(tmp_path, "", objects)) as database:
        check_objects(database)  # as who serves does
    for given in ((), ("--objects", (tmp_path / "other").as_uri())):
        code, _, err = run("jobs", "delete", job_id, *state, *given)
        assert code == 78
        assert "--objects" in err
    assert json.loads(run("tenants", "list", *state, "--json")[1])["tenants"], "needs none"
    assert run("jobs", "delete", job_id, *state, "--objects", objects)[0] == 0


def missing(bundle: Path) -> None:
    shutil.rmtree(bundle)


def cut(bundle: Path) -> None:
    (bundle / "words.txt").write_bytes(b"x")


def no_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("{}")


def of_another_version(bundle: Path) -> None:
    (bundle / "manifest.json").write_text('{"format": "sottovoce.bundle.v0"}')


@pytest.mark.parametrize("harm", [missing, cut, no_manifest, of_another_version])
@pytest.mark.parametrize("command", ["serve", "front", "replica", "train-denoiser"])
def test_a_bundle_that_cannot_be_used_is_to_be_built(
    tmp_path: Path, small_bundle_folder: Path, command: str, harm: Callable[[Path], None]
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(small_bundle_folder, bundle)
    harm(bundle)
    options = (
        ["--data", tmp_path, "--out", tmp_path / "out"]
        if command == "train-denoiser"
        else ["--state", tmp_path / "state", "--listen", "127.0.0.1:0"]
    )
    program = sotto_models if command == "train-denoiser" else main
    done = CliRunner().invoke(program, [command, "--bundle", str(bundle), *map(str, options)])
    assert done.exit_code in (3, 8)
    assert "`sotto-cloud build-bundle" in done.stderr
    assert "`sotto " not in done.stderr


def test_a_tagger_that_is_missing_is_to_be_trained(tmp_path: Path) -> None:
    options = ["--data", tmp_path, "--tagger", tmp_path / "none", "--out", tmp_path / "out"]
    done = CliRunner().invoke(sotto_models, ["count-words", *map(str, options)])
    assert done.exit_code == 3
    assert "`sotto-models train-tagger`" in done.stderr
    assert "`sotto " not in done.stderr


TENANT = "a-tenant-with-a-name-of-the-longer-kind"
DEVICE = "the-kitchen-device-with-a-long-name-" + "y" * 28


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory, small_bundle: Bundle) -> Path:
    """A cloud in which every table has a long row."""
    folder = tmp_path_factory.mktemp("wide")
    with opened(folder, FileStore()) as jobs:
        queued(jobs)
        _, lease = claim(jobs)
        queue = Queue(jobs.database)
        queue.report(lease, Progress(2, 8, 30, 120, 0.48, 0.31, 0.875, 6431.2, 5000.0), 300.0)
        Tenants(jobs.database).enroll(TENANT)
        with jobs.database.write() as transaction:
            transaction.change(
                "UPDATE jobs SET tenant = :tenant, adapter = :adapter",
                tenant=TENANT,
                adapter="7f" * 32,
            )
    with closing(open_database(folder, create=False)) as database:
        Credentials(database).new(TENANT, DEVICE, seconds=90 * 86400.0)
    shown = _run(folder, "bundles", "publish", str(small_bundle.folder))
    assert "published as" in shown
    return folder


def _run(state: Path, *arguments: str) -> str:
    places = {"SOTTO_CLOUD_STATE": str(state)}
    if arguments[0] == "bundles":  # which only a cloud of many machines has
        many = (state / "many").absolute()
        places = {"SOTTO_CLOUD_STATE": str(many), "SOTTO_CLOUD_OBJECTS": f"file://{many}/objects"}
    result = CliRunner().invoke(main, [*arguments], env=places)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("jobs", "list"), {"ID", "TENANT", "STATE"}),
        (("tenants", "list"), {"NAME", "STATE", "TOKENS"}),
        (("tokens", "list"), {"NUMBER", "NAME", "STATE", "ENDS"}),
        (("limit", TENANT), {"LIMIT"}),
        (("audit-log",), {"WHEN", "WHAT", "TENANT"}),
        (("bundles", "list"), {"ID", "STATE", "SIZE"}),
        (("status",), {"JOB", "LEASE", "STEP"}),
    ],
)
def test_a_table_fits_and_keeps_what_matters(
    state: Path,
    columns: int,
    arguments: tuple[str, ...],
    kept: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = _run(state, *arguments).splitlines()
    assert [line for line in shown if len(line) > columns] == []
    assert any(kept <= set(line.split()) for line in shown)


def test_the_version_is_the_packages() -> None:
    assert json.loads(run("version", "--json")[1])["version"].startswith("0.")
    assert run("--version")[1].startswith("sotto-cloud 0.")
