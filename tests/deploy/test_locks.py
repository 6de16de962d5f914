"""The lists of what both sides run on: whole, pinned by hash, and of the sources that are here."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.locks.__main__ import ASKED, asked
from tests.support.paths import ROOT

LISTS = sorted(ASKED)


def _text(name: str) -> str:
    return (ROOT / f"deploy/locks/{name}.txt").read_text()


def _listed(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)(?: ;.*)? \\$", _text(name), re.MULTILINE))


@pytest.mark.parametrize("name", LISTS)
def test_each_file_is_named_by_its_hash_and_by_nothing_else(name: str) -> None:
    lines = [line for line in _text(name).splitlines() if line.lstrip()[:1] not in ("", "#")]
    wrong = [
        line
        for line in lines
        if not re.fullmatch(r"[a-z0-9.-]+==\S+(?: ;.*)? \\", line)
        and not re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line)
    ]
    assert not wrong, "`make lock` writes it"
    assert "://" not in _text(name), "whose index it was is nobody's business"
    hashed = re.findall(r"==\S+(?: ;.*)? \\\n    --hash=", _text(name))
    assert len(hashed) == len(_listed(name)) > 20


@pytest.mark.parametrize("name", LISTS)
def test_it_is_of_the_sources_that_are_here(name: str) -> None:
    listed = _listed(name)
    for requirement in map(Requirement, asked(name)):
        version = listed.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not listed: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement}: run `make lock`"
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    # Of torch there is a build for CPUs, "+cpu".
    public = {name: version.partition("+")[0] for name, version in listed.items()}
    other = {pin for pin in pins if public.get(canonicalize_name(pin[0]), pin[1]) != pin[1]}
    assert not other, "constraints.txt has other versions: run `make lock`"
