"""The Helm chart, rendered by Helm and held to Kubernetes' schemas. `make helm` installs both.

No cluster runs. Kinds of cert-manager and KEDA have no schema here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from sottovoce.cloud.cli import main as sotto_cloud
from tests.support.paths import ROOT

CHART = ROOT / "deploy" / "helm"
KUSTOMIZE = ROOT / "deploy" / "kubernetes"
HELM, VALIDATE = (ROOT / ".venv-helm" / "bin" / each for each in ("helm", "kubernetes-validate"))
KUBERNETES = "1.32"
TLS = (
    "certificates.internal.enabled=true",
    "certificates.external.enabled=true",
    "certificates.external.host=cloud.example",
)
VARIANTS = {
    "default": (),
    "tls": TLS,
    "keda": ("keda.enabled=true",),
    "bucket": ("objects.claim.create=false", "objects.url=s3://b/p", "objects.credentials=aws"),
    "open": ("network.enabled=false",),
}
Objects = dict[tuple[str, str], dict[str, Any]]


def rendered(*settings: str, namespace: str = "acme") -> Objects:
    """The chart's objects, by kind and name."""
    if not HELM.exists() or subprocess.run([HELM, "version"], capture_output=True).returncode:
        pytest.skip("no helm for this machine: run `make helm`")
    given = [part for each in settings for part in ("--set", each)]
    command = [HELM, "template", "x", CHART, "--namespace", namespace, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    objects = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(objects) == len(found)
    return objects


def kustomized() -> Objects:
    """The objects of `deploy/kubernetes`."""
    files = yaml.safe_load((KUSTOMIZE / "kustomization.yaml").read_text())["resources"]
    found = [o for file in files for o in yaml.safe_load_all((KUSTOMIZE / file).read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pods(objects: Objects) -> dict[str, dict[str, Any]]:
    """The pods of the deployments."""
    return {n: o["spec"]["template"]["spec"] for (k, n), o in objects.items() if k == "Deployment"}


def validated(objects: Objects, folder: Path) -> subprocess.CompletedProcess[str]:
    """The objects against Kubernetes' own schemas; no unknown field passes."""
    ours = [o for o in objects.values() if o["kind"] not in ("Certificate", "ScaledObject")]
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(ours))
    command = [VALIDATE, "--strict", "--kubernetes-version", KUBERNETES, file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_kubernetes_would_take_it(variant: str, tmp_path: Path) -> None:
    objects = rendered(*VARIANTS[variant])
    done = validated(objects, tmp_path)
    assert not done.returncode, done.stdout + done.stderr
    objects["Deployment", "front"]["spec"]["replica"] = 1
    assert validated(objects, tmp_path).returncode


def test_kubernetes_would_take_the_files_of_kustomize(tmp_path: Path) -> None:
    rendered()  # or it skips
    done = validated(kustomized(), tmp_path)
    assert not done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_programs_take_their_commands_and_mounts_have_volumes(variant: str) -> None:
    found = pods(rendered(*VARIANTS[variant]))
    assert found.keys() == {"replica", "front", "trainer", "balancer"}
    for name, pod in found.items():
        (container,) = pod["containers"]
        assert {v["name"] for v in pod["volumes"]} == {
            mount["name"] for mount in container["volumeMounts"]
        }
        commands = [container["args"]] if "args" in container else []
        commands += [
            container[probe]["exec"]["command"][1:]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe")
            if "exec" in container.get(probe, {})
        ]
        for role, *options in commands:
            command = sotto_cloud.get_command(click.Context(sotto_cloud), role)
            assert command is not None, name
            here = [__file__ if each.startswith("/tls/") else each for each in options]
            assert command.make_context(role, here)


def test_it_has_what_kustomize_has() -> None:
    ours, theirs = rendered("keda.enabled=true"), kustomized()
    assert theirs.keys() - ours.keys() == {("Namespace", "sottovoce")}
    for (kind, name), other in theirs.items():
        if kind in ("NetworkPolicy", "PodDisruptionBudget", "Service"):
            assert ours[kind, name]["spec"] == other["spec"], (kind, name)
    theirs_pods = pods(theirs)
    for name, pod in pods(ours).items():
        (container,), (other_container,) = pod["containers"], theirs_pods[name]["containers"]
        for key in ("securityContext", "resources"):
            if name != "replica" or key != "resources":
                assert container[key] == other_container[key], (name, key)
        assert pod["securityContext"] == theirs_pods[name]["securityContext"]
        assert pod["automountServiceAccountToken"] is False
        spread = pod["topologySpreadConstraints"]
        assert spread == theirs_pods[name]["topologySpreadConstraints"]
        names = {each["name"] for each in container.get("env", ())}
        assert names == {each["name"] for each in other_container.get("env", ())}


def test_strangers_reach_the_balancer_alone() -> None:
    policies = [o["spec"] for (kind, _), o in rendered().items() if kind == "NetworkPolicy"]
    everyone = [p for p in policies if any("from" not in rule for rule in p.get("ingress", ()))]
    (policy,) = everyone
    assert policy["podSelector"] == {"matchLabels": {"app": "balancer"}}
    assert policy["ingress"] == [{"ports": [{"port": 8471}]}]


def test_with_certificates_nothing_crosses_the_cluster_in_plaintext() -> None:
    objects = rendered(*TLS)
    for role in ("replica", "front"):
        (container,) = pods(objects)[role]["containers"]
        assert "--insecure-plaintext" not in container["args"]
        names = objects["Certificate", role]["spec"]["dnsNames"]
        assert f"{role}.acme.svc.cluster.local" in names
        assert f"verifyhost {names[0]} " in objects["ConfigMap", "haproxy"]["data"]["haproxy.cfg"]
    assert "--insecure-plaintext" in pods(rendered())["replica"]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("name", "more"),
    [("haproxy.cfg", ()), ("haproxy-tls.cfg", ("--backend-ca", "/backend/ca.crt"))],
)
def test_the_balancers_files_are_what_the_command_prints(name: str, more: tuple[str, ...]) -> None:
    domain = "sottovoce.svc.cluster.local:8471"
    options = f"--listen 0.0.0.0:8471 --tls-cert /tls/both.pem --replica replica.{domain}*16 "
    options += f"--front front.{domain}*4 --metrics 0.0.0.0:9471"
    done = CliRunner().invoke(sotto_cloud, ["balancer-config", *options.split(), *more])
    assert (CHART / name).read_text("utf-8") == done.stdout
