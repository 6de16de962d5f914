"""What `deploy/` says is true of this program: its commands, options, ports, names and files.

Images and clusters are not run here. Everything in these files that our side must understand is
taken by our side.
"""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from bench.live.testbed import free_address
from sottovoce.cloud.cli import main as sotto_cloud
from sottovoce.cloud.job import State
from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.edge.cli import main as sotto
from tests.support import haproxy
from tests.support.certificates import Certificate
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    each
    for name in KUSTOMIZATION["resources"]
    for each in yaml.safe_load_all((KUBERNETES / name).read_text("utf-8"))
]
OURS = {name: s for name, s in COMPOSE["services"].items() if s["image"].startswith("sottovoce")}
CLAIM = "PersistentVolumeClaim"
OF_OTHERS = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """Kubernetes' objects of a kind, by name."""
    return {o["metadata"]["name"]: o for o in OBJECTS if o["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    """What each deployment runs: its pods' spec."""
    return {name: d["spec"]["template"]["spec"] for name, d in of_kind("Deployment").items()}


def containers() -> dict[str, dict[str, Any]]:
    """The one of each pod."""
    return {name: pod["containers"][0] for name, pod in pods().items()}


def taken(arguments: list[str]) -> click.Context:
    """Arguments of ``sotto-cloud``, understood by the command that they name."""
    name, *options = arguments
    command = sotto_cloud.get_command(click.Context(sotto_cloud), name)
    assert command is not None, name
    return command.make_context(name, options)


def variables(group: click.Command) -> Iterator[str]:
    """Of the environment, those that commands read."""
    if isinstance(group, click.Group):
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            assert command is not None
            yield from variables(command)
    for option in group.params:
        found = option.envvar or ()
        yield from [found] if isinstance(found, str) else found


KNOWN = set(variables(sotto_cloud))


def ours_in_kubernetes() -> dict[str, dict[str, Any]]:
    """Containers of our image."""
    return {n: c for n, c in containers().items() if c["image"].startswith("sottovoce-cloud")}


def commands() -> dict[str, list[str]]:
    found = {f"compose {name}": service["command"] for name, service in OURS.items()}
    found |= {f"kubernetes {name}": c["args"] for name, c in ours_in_kubernetes().items()}
    for name, service in OURS.items():
        if "healthcheck" in service:
            cmd, program, *arguments = service["healthcheck"]["test"]
            assert (cmd, program) == ("CMD", "sotto-cloud")
            found[f"health of {name}"] = arguments
    return found


@pytest.mark.parametrize("where", commands())
def test_every_command_of_ours_is_understood(where: str) -> None:
    assert taken(commands()[where])


def test_roles_are_all_there_in_both() -> None:
    roles = {"replica", "front", "trainer"}
    assert {service["command"][0] for service in OURS.values()} == roles
    assert {c["args"][0] for c in ours_in_kubernetes().values()} == roles


def test_ports_are_those_that_processes_listen_on() -> None:
    for name, container in ours_in_kubernetes().items():
        given = taken(container["args"]).params
        said = [given.get(option) for option in ("listen", "metrics")]
        listened = {int(address.rpartition(":")[2]) for address in said if address}
        assert {port["containerPort"] for port in container.get("ports", ())} == listened, name
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            called = given.get("listen", "").rpartition(":")[2]
            if called:
                assert container[probe]["grpc"]["port"] == int(called)
            else:
                assert container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}, name
    for name, service in of_kind("Service").items():
        (selected,) = service["spec"]["selector"].values()
        ports = {port["name"] for port in containers()[selected]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports, name
    for name, service in OURS.items():
        if "healthcheck" in service:
            port = service["healthcheck"]["test"][-1].rpartition(":")[2]
            given = taken(service["command"]).params
            address = given.get("listen") or given["metrics"]
            assert address.endswith(f":{port}"), name


def test_the_environment_has_only_what_is_read() -> None:
    for service in COMPOSE["services"].values():
        assert service.get("environment", {}).keys() <= KNOWN | OF_OTHERS
    for container in containers().values():
        assert {variable["name"] for variable in container.get("env", ())} <= KNOWN
    assert set(re.findall(r"\b(SOTTO_\w+)=", DOCKERFILE)) <= KNOWN


def test_files_secrets_and_volumes_are_there_or_asked_for() -> None:
    made = {s["name"] for s in KUSTOMIZATION["secretGenerator"]}
    made |= {c["name"] for c in KUSTOMIZATION["configMapGenerator"]} | {*of_kind(CLAIM)}
    for name, pod in pods().items():
        sources = {}
        for volume in pod["volumes"]:
            source = {**volume}
            sources[source.pop("name")] = source
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == sources.keys(), name
            for variable in container.get("env", ()):
                secret = variable.get("valueFrom", {}).get("secretKeyRef", {})
                assert secret.get("name", "store") in made
        for source in sources.values():
            ((kind, about),) = source.items()
            named = [about[key] for key in ("name", "secretName", "claimName") if key in about]
            assert kind == "emptyDir" or set(named) <= made, name
    for generator in KUSTOMIZATION["configMapGenerator"]:
        assert all((KUBERNETES / file).is_file() for file in generator["files"])
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file(), source


def test_who_seals_examples_and_who_opens_them_have_one_key_apart_from_what_it_seals() -> None:
    secrets = {s["name"]: s["files"] for s in KUSTOMIZATION["secretGenerator"]}
    for name, container in ours_in_kubernetes().items():
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        mounts = {m["name"]: Path(m["mountPath"]) for m in container["volumeMounts"]}
        file = env.get("SOTTO_CLOUD_KEY_FILE")
        if container["args"][0] == "replica":  # which strangers reach, and needs none
            assert (file, "master" in mounts) == (None, False)
            continue
        (source,) = (v["secret"] for v in pods()[name]["volumes"] if v["name"] == "master")
        (key,) = secrets[source["secretName"]]
        assert file == str(mounts["master"] / Path(key).name), name
    made: set[str] = set()
    for name, service in OURS.items():
        env, volumes = service["environment"], dict(v.split(":") for v in service["volumes"])
        kept = {env["SOTTO_CLOUD_STATE"], env["SOTTO_CLOUD_OBJECTS"].removeprefix("file://")}
        if service["command"][0] != "replica":
            kept.add(str(Path(env["SOTTO_CLOUD_KEY_FILE"]).parent))
        assert kept == {*volumes.values()}, f"each of {name} is a volume, and the key apart"
        assert len(kept) == len(service["volumes"])
        made |= kept
    (folders,) = re.findall(r"install -d -o sotto .*-m 700 (.*)$", DOCKERFILE, re.M)
    assert set(folders.split()) == made, "a new volume is ours to write"


def test_the_balancers_private_key_is_its_alone() -> None:
    (secret,) = COMPOSE["services"]["balancer"]["secrets"]
    assert (secret["uid"], secret["mode"]) == ("99", 0o400)
    assert f" crt {secret['target']} " in (DEPLOY / "haproxy.cfg").read_text("utf-8")
    assert "environment" in COMPOSE["secrets"][secret["source"]], "files keep the host's mode"


def test_each_service_has_a_health_check_and_a_limit_of_memory() -> None:
    for name, service in COMPOSE["services"].items():
        assert {"healthcheck", "mem_limit"} <= service.keys(), name


def test_the_gpu_image_is_of_trainers_and_replicas_and_the_cpu_image_the_default() -> None:
    tags = {each["name"]: each["newTag"] for each in KUSTOMIZATION["images"]}
    used = {name: tags[container["image"]] for name, container in ours_in_kubernetes().items()}
    assert used == {"replica": "gpu", "front": "cpu", "trainer": "gpu"}
    *_, default = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert default == "cloud-cpu"


def test_pods_have_few_rights_and_spread() -> None:
    for name, pod in pods().items():
        assert pod["automountServiceAccountToken"] is False
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == {"app": name}
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]


def test_what_scales_and_what_is_kept_up_runs() -> None:
    for kind in ("ScaledObject", "PodDisruptionBudget"):
        assert of_kind(kind).keys() <= pods().keys()
    assert of_kind("PodDisruptionBudget").keys() == pods().keys()
    scaled = of_kind("ScaledObject")
    # Without a trainer nothing is swept up, and an object store that was away keeps deleted keys.
    assert all(s["spec"]["minReplicaCount"] for s in scaled.values())
    (waiting,) = scaled["replica"]["spec"]["triggers"]
    (metric,) = re.findall(r"sottovoce_\w+", waiting["metadata"]["query"])
    registry = Metrics().registry
    assert metric in {sample.name for family in registry.collect() for sample in family.samples}


def test_queued_jobs_are_counted_by_a_query_that_the_schema_has(tmp_path: Path) -> None:
    (queued,) = of_kind("ScaledObject")["trainer"]["spec"]["triggers"]
    query = queued["metadata"]["query"]
    assert set(re.findall(r"'(\w+)'", query)) == {State.QUEUED, State.RUNNING}
    SqliteDatabase(tmp_path).close()
    with sqlite3.connect(tmp_path / "sottovoce.db") as database:
        assert database.execute(query).fetchone() == (0,)
    database.close()
    env = {variable["name"] for variable in containers()["trainer"]["env"]}
    assert queued["metadata"]["connectionFromEnv"] in env


def test_images_hold_what_the_locks_name_by_the_pip_of_whoever_builds_them() -> None:
    runs = [run for run in re.findall(r"^RUN (?:.*\\\n)*.*$", DOCKERFILE, re.M) if "pip " in run]
    assert len(runs) == 3
    for run in runs:
        assert "--mount=type=secret,id=pip.conf,target=/etc/pip.conf " in run
        for options in re.findall(r"pip install (.+?)(?: \\)?$", run, re.M):
            files = re.findall(r"-r (\S+)", options)
            assert all((DEPLOY / file).is_file() for file in files)
            if files != ["locks/torch.txt"]:
                assert "--no-deps" in options
                assert "--require-hashes" in options if files else "--no-build-isolation" in options
    assert "index-url" not in DOCKERFILE


def test_no_yaml_of_ours_merges_a_list() -> None:
    """Parsers differ in which of several mappings wins."""
    places = (each for each in ROOT.iterdir() if not each.name.startswith((".venv", "build")))
    files = [*ROOT.glob("*.y*ml"), *(file for each in places for file in each.rglob("*.y*ml"))]
    files = [file for file in files if file.parent.name != "templates"]  # Helm's, not YAML
    assert DEPLOY / "compose.yaml" in files
    wrong = [file for file in files if merges_lists(file.read_text("utf-8"))]
    assert not wrong
    assert merges_lists("a: &a {x: 1}\nb:\n  c: [{<<: [*a, *a]}]\n")
    assert not merges_lists("a: &a {x: [1]}\nb: {<<: *a}\n")


def merges_lists(text: str) -> bool:
    """Whether some ``<<`` of a YAML stream has a list."""
    queue = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
    while queue:
        node = queue.pop()
        if isinstance(node, yaml.SequenceNode):
            queue += node.value
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag == "tag:yaml.org,2002:merge" and isinstance(value, yaml.SequenceNode):
                return True
            queue += (key, value)
    return False


def test_what_images_are_made_of_is_there() -> None:
    stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.M)
    for source in re.findall(r"^COPY (?!--)(\S+) \S+$", DOCKERFILE, re.M):
        assert (ROOT / source).exists(), source
        assert f"!{source}" in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"edge", "cloud-cpu", "cloud-gpu"} <= set(stages)
    for service in OURS.values():
        assert service["build"]["target"] in stages
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    for line in re.findall(r'^CMD \["(.*)"\]$', DOCKERFILE, re.M):
        name, *options = line.split('", "')
        group = sotto_cloud if options else sotto
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert command.make_context(name, options)
    for built in re.findall(r"sotto-cloud (build-bundle [^&\\\n]+)", DOCKERFILE):
        assert taken(shlex.split(built))


# A cluster's names are whole: HAProxy reads of resolv.conf what it asks, not where it searches.
@pytest.mark.parametrize(
    ("folder", "domain"),
    [(DEPLOY, ""), (KUBERNETES, f".{KUSTOMIZATION['namespace']}.svc.cluster.local")],
)
def test_the_balancers_file_is_what_the_command_prints(
    folder: Path, domain: str, tmp_path: Path
) -> None:
    file = folder / "haproxy.cfg"
    options = f"--listen 0.0.0.0:8471 --tls-cert /tls/both.pem --replica replica{domain}:8471*16 "
    options += f"--front front{domain}:8471*4 --metrics 0.0.0.0:9471"
    done = CliRunner().invoke(sotto_cloud, ["balancer-config", *options.split()])
    assert file.read_text("utf-8") == done.stdout, f"run sotto-cloud balancer-config {options}"
    assert {"replica", "front"} <= OURS.keys() & of_kind("Service").keys()
    program = haproxy.found()
    if program is None:
        pytest.skip(haproxy.HINT)
    made = Certificate.make()
    both = tmp_path / "both.pem"
    both.write_bytes(made.certificate + made.key)
    text = done.stdout.replace("/tls/both.pem", str(both))
    for address in ("0.0.0.0:8471", "0.0.0.0:9471"):
        text = text.replace(address, free_address())
    with haproxy.running(program, text) as balancer:
        assert balancer.process.poll() is None
