"""The Debian package has its parts, and two builds hold the same bytes."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from deploy.debian.check import same_bytes
from deploy.debian.package import build
from deploy.debian.target import SUITES, Target
from deploy.debian.wheels import Wheel, needed, unpack
from sottovoce.edge.cli import COMMANDS, service
from tests.support.paths import ROOT

SCRIPTS = sorted((ROOT / "deploy/debian/scripts").iterdir())
EPOCH = 1_700_000_000
TRIXIE = Target("arm64", "trixie")

needs_dpkg = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here: use a Debian-like machine"
)


def wheel(
    folder: Path, name: str, version: str, *requires: str, holds: Sequence[str] = ()
) -> Wheel:
    """A wheel with one module, or with some files."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
    about += "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(file, "w") as archive:
        for member in holds or (f"{name}/__init__.py",):
            archive.writestr(member, "")
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
    return Wheel.read(file)


@pytest.fixture
def wheels(tmp_path: Path) -> list[Wheel]:
    return [wheel(tmp_path, "ours", "0.1.0", "theirs>=2"), wheel(tmp_path, "theirs", "2.1")]


def packed(wheels: list[Wheel], out: Path, target: Target = TRIXIE) -> Path:
    version = target.version("0.1.0")
    return build(wheels, target, ROOT, out, version=version, epoch=EPOCH, compression="none")


@needs_dpkg
def test_two_builds_hold_the_same_whenever_and_wherever_they_are_made(
    wheels: list[Wheel], tmp_path: Path
) -> None:
    one = packed(wheels, tmp_path / "one")
    before = os.umask(0o077)
    try:
        for each in wheels:
            os.utime(each.file, (1, 1))
        other = packed(wheels, tmp_path / "other")
    finally:
        os.umask(before)
    assert one.name == "sottovoce_0.1.0+deb13_arm64.deb"
    assert one.read_bytes() == other.read_bytes()
    assert list(same_bytes(one, other))
    with pytest.raises(AssertionError, match="differ"):
        list(same_bytes(one, packed(wheels[:1], tmp_path / "less")))


@needs_dpkg
def test_a_package_says_what_it_is_and_has_all_its_parts(
    wheels: list[Wheel], tmp_path: Path
) -> None:
    file = packed(wheels, tmp_path)
    field = ["dpkg-deb", "--field", str(file)]
    said = subprocess.run(field, check=True, capture_output=True, text=True).stdout
    fields = dict(re.findall(r"^([\w-]+): (.*)$", said, re.MULTILINE))
    assert (fields["Architecture"], fields["Version"]) == ("arm64", "0.1.0+deb13")
    assert "python3 (>= 3.13~), python3 (<< 3.14~)" in fields["Depends"]
    control, root = tmp_path / "control", tmp_path / "root"
    subprocess.run(["dpkg-deb", "--control", str(file), str(control)], check=True)
    subprocess.run(["dpkg-deb", "--extract", str(file), str(root)], check=True)
    assert (control / "conffiles").read_text() == "/etc/sottovoce/agent.toml\n"
    sums = subprocess.run(["md5sum", "--quiet", "-c", control / "md5sums"], cwd=root, check=False)
    assert sums.returncode == 0
    assert "@" not in (control / "postinst").read_text(), "every mark is filled in"
    unit = (root / f"usr/lib/systemd/system/{service.NAME}").read_text()
    assert f"User={service.ACCOUNT}\n" in unit
    assert 'ExecStart="/usr/lib/sottovoce/bin/sotto" serve\n' in unit
    site = root / "usr/lib/sottovoce/lib/python3.13/site-packages"
    assert {path.name for path in site.iterdir()} >= {"ours", "theirs"}
    assert os.readlink(root / "usr/bin/sotto") == "../lib/sottovoce/bin/sotto"
    pages = {path.name for path in (root / "usr/share/man/man1").iterdir()}
    assert {"sotto.1.gz", "sotto-config-set.1.gz"} <= pages
    assert {f"sotto-{name}.1.gz" for name in COMMANDS} <= pages
    told = (root / "usr/share/doc/sottovoce/copyright").read_text()
    assert "theirs 2.1\nLicense: MIT\n" in told
    assert (root / "usr/share/bash-completion/completions/sotto").read_text().count("sotto") > 1
    assert not [
        path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_shells_understand_the_maintainers_scripts(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert "\nset -e\n" in script.read_text(), "what fails is told to dpkg"
    if found := shutil.which("shellcheck"):
        subprocess.run([found, str(script)], check=True)


@needs_dpkg
def test_dpkg_orders_versions_as_python_does() -> None:
    ordered = [
        "0.2.0.dev1",
        "0.2.0a1.dev2",
        "0.2.0a1",
        "0.2.0a1.post1",
        "0.2.0rc1.dev2",
        "0.2.0rc1",
    ]
    ordered += ["0.2.0", "0.2.0.post1.dev2", "0.2.0.post1", "0.10"]
    versions = [Target("amd64", suite).version(v) for v in ordered for suite in sorted(SUITES)]
    for one, other in itertools.pairwise(versions):
        subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=True)
    for refused in ("1!1.0", "1.0+local1"):
        with pytest.raises(ValueError, match=re.escape(refused)):
            Target("amd64", "trixie").version(refused)


def test_what_is_missing_for_the_target_is_noticed(wheels: list[Wheel], tmp_path: Path) -> None:
    assert [w.name for w in needed(wheels, "ours", TRIXIE)] == ["ours", "theirs"]
    with pytest.raises(ValueError, match="theirs>=2 is needed"):
        needed(wheels[:1], "ours", TRIXIE)
    asked = 'theirs; platform_machine == "aarch64" and python_version >= "3.13"'
    first = wheel(tmp_path, "first", "1", asked)
    assert len(needed([first, *wheels], "first", TRIXIE)) == 2
    assert len(needed([first, *wheels], "first", Target("amd64", "trixie"))) == 1
    assert len(needed([first, *wheels], "first", Target("arm64", "bookworm"))) == 1


@pytest.mark.parametrize(
    "member", ["{}/there", "/{}/there", "../there", "a/../../there", "a.data/purelib/../x"]
)
def test_a_wheel_writes_nothing_outside_its_folder(member: str, tmp_path: Path) -> None:
    bad = wheel(tmp_path, "bad", "1", holds=["a/__init__.py", member.format(tmp_path)])
    site = tmp_path / "one/site"
    with pytest.raises(ValueError, match="leads elsewhere"):
        unpack(bad, site)
    assert not [path for path in tmp_path.rglob("*") if path.name in ("there", "x")]


@needs_dpkg
def test_the_copyright_file_names_whose_each_file_is(tmp_path: Path) -> None:
    theirs = [
        wheel(tmp_path, "proto", "7", holds=["google/protobuf/a.py", "google/_upb/b.so"]),
        wheel(tmp_path, "commons", "1", holds=["google/api/c.py", "google/d.py"]),
        wheel(tmp_path, "ffi", "2", holds=["_ffi.so", "ffi/e/f.py", "ffi-2.data/platlib/g/h.py"]),
    ]
    file, root = packed([*theirs, wheel(tmp_path, "sottovoce", "1")], tmp_path), tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", str(file), str(root)], check=True)
    text = (root / "usr/share/doc/sottovoce/copyright").read_text()
    paragraphs = [
        (re.findall(r"^(?:Files:)? (/\S+)", part, re.MULTILINE), part)
        for part in text.split("\n\n")[2:]
    ]
    for each in theirs:
        for path in each.files.values():
            whole = f"/usr/lib/sottovoce/lib/python3.13/site-packages/{path}"
            assert (root / whole[1:]).exists()
            said = [p for names, p in paragraphs if any(fnmatchcase(whole, n) for n in names)]
            assert len(said) == 1, path
            assert f"the authors of {each.name} {each.version}\n" in said[0]


def test_a_wheel_that_brings_others_speaks_for_itself(tmp_path: Path) -> None:
    held = ("outer/_vendor/inner-1.0.dist-info/METADATA", "outer/__init__.py")
    outer = wheel(tmp_path, "outer", "2.0", holds=held)
    assert (outer.name, outer.version) == ("outer", "2.0")
