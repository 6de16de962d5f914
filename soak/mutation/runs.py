"""Mutate one module with mutmut, and keep the results.

mutmut expects a project of one environment with its sources under ``src``. This repository is a
namespace over three distributions and two environments. So each module gets a folder of links under
``build``, in the form of such a project. One file there holds all its mutants. Each is tried in a
process forked from one that has imported everything.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from soak.mutation.suite import Module
from sottovoce.core.errors import NotReady

ROOT: Final = Path(__file__).parents[2]
KILLED: Final = frozenset({"killed", "timeout", "segfault"})
"""What mutmut says of a mutant that was noticed; one that no test reaches survived."""
UNTRIED: Final = "not checked"
"""What mutmut says of a mutant that it has not tried."""
_PARTS: Final = {
    "core": "core/sottovoce/core",
    "edge": "edge/sottovoce/edge",
    "cloud": "cloud/sottovoce/cloud",
    "models": "models/sottovoce/models",
    "v1": "protos/sottovoce/v1",
}
_DIFFS: Final = """
import json, sys
from mutmut.mutation.diff_apply import get_diff_for_mutant
print(json.dumps({name: get_diff_for_mutant(name) for name in sys.argv[1:]}))
"""
"""`mutmut show` for many at once: it takes a second to start."""
_LINKED: Final = (
    "bench",
    "cloud",
    "core",
    "docs",
    "edge",
    "examples",
    "models",
    "protos",
    "soak",
    "tests",
)


@dataclass(frozen=True)
class Mutant:
    """One changed place. Only survivors have ``line`` and ``mutant``."""

    name: str
    status: str
    line: str = ""
    mutant: str = ""
    diff: str = ""


@dataclass(frozen=True)
class Outcome:
    """The tried mutants of a module.

    Attributes:
        complete: False if only earlier survivors were tried again.
        left: number of mutants that were not tried.
    """

    mutants: tuple[Mutant, ...]
    complete: bool
    left: int = 0

    @property
    def survivors(self) -> tuple[Mutant, ...]:
        return tuple(mutant for mutant in self.mutants if mutant.status not in KILLED)


@dataclass(frozen=True)
class Workshop:
    """The folders and settings of a run of mutmut.

    Args:
        build: holds a folder for each module, with its results.
        tool: the folder that mutmut is installed in, beside both environments.
        bundle: the bundle for tests of the real one.
        jobs: mutants tried at once.
        wording: regular expressions of lines that are not mutated.
    """

    build: Path
    tool: Path
    bundle: Path
    jobs: int
    wording: tuple[str, ...]

    def outcome(
        self, module: Module, *, survivors_only: bool = False, only: tuple[str, ...] = ()
    ) -> Outcome:
        """What became of the mutants of ``module``; from the last run where nothing changed.

        Args:
            only: globs of the names of the mutants that are tried; all without one.
            survivors_only: what an earlier run of the same source killed stays killed, whatever
                became of the tests since: for the time of writing tests.

        Raises:
            NotReady: the tests fail without any mutation, or mutmut failed.
        """
        folder = self.build / module.name.replace("/", ".")
        self.build.mkdir(parents=True, exist_ok=True)
        with (self.build / "lock").open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise NotReady("another run is at work", fix="wait for its end") from error
            return self._outcome(folder, module, survivors_only, only)

    def _outcome(
        self, folder: Path, module: Module, survivors_only: bool, only: tuple[str, ...]
    ) -> Outcome:
        state = self._state(module) | {"only": " ".join(only)}
        known = _saved(folder / "outcome.json")
        if known is not None and known["state"] == state:
            return _read(known)
        same_source = known is not None and known["state"]["source"] == state["source"]
        if survivors_only and known is not None and same_source:
            again = tuple(mutant.name for mutant in _read(known).survivors)
            # So that tests that are new, or reach further than before, are tried as well.
            (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
            self._set_up(folder, module)
            # Without the tests' hash: the next whole run starts afresh.
            state |= {"tests": ""}
            return self._run(folder, module, again, state) if again else _read(known)
        if not _begun(folder, state):
            shutil.rmtree(folder, ignore_errors=True)
            _lay_out(folder, module)
            self._set_up(folder, module)
            (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
        return self._run(folder, module, only, state, complete=True)

    def _run(
        self,
        folder: Path,
        module: Module,
        names: tuple[str, ...],
        state: Mapping[str, str],
        *,
        complete: bool = False,
    ) -> Outcome:
        jobs = ("--max-children", str(self.jobs))
        self._python(folder, module, "-m", "mutmut", "run", *jobs, *names)
        listed = self._statuses(folder, module)
        tried = {name: status for name, status in listed.items() if status != UNTRIED}
        mutants = self._mutants(folder, module, tried)
        outcome = Outcome(mutants, complete, len(listed) - len(tried))
        saved = {"state": state} | asdict(outcome)
        (folder / "outcome.json").write_text(json.dumps(saved, indent=1), encoding="utf-8")
        return outcome

    def _state(self, module: Module) -> dict[str, str]:
        """Return hashes of all inputs that decide a module's mutants and their results."""
        tests = [ROOT / name for name in module.tests]
        return {
            "source": _digest([ROOT / module.source], *self.wording),
            "tests": _digest(tests, *module.without),
        }

    def _set_up(self, folder: Path, module: Module) -> None:
        settings = configparser.ConfigParser(interpolation=None)
        settings["mutmut"] = {
            "source_paths": _lines(f"src/sottovoce/{part}" for part in _parts(module)),
            "only_mutate": f"src/sottovoce/{module.name}.py",
            "do_not_mutate_patterns": _lines(self.wording),
            "pytest_add_cli_args": _lines(["-p", "no:cacheprovider"]),
            "pytest_add_cli_args_test_selection": _lines(
                [*module.tests, *(f"--deselect={test}" for test in module.without)]
            ),
            # grpc and torch survive no fork once they have started threads.
            "process_isolation": "forkserver",
            "use_git_change_detection": "false",
            # An endless loop is given up after this many times its tests' usual time, and counts as
            # noticed: so wide that a busy machine alone does not get there. mutmut multiplies the
            # constant too, so 2 gives 30 seconds more.
            "timeout_multiplier": "15",
            "timeout_constant": "2",
        }
        with (folder / "setup.cfg").open("w", encoding="utf-8") as file:
            settings.write(file)

    def _statuses(self, folder: Path, module: Module) -> dict[str, str]:
        listed = self._python(folder, module, "-m", "mutmut", "results", "--all", "true")
        return dict(line.strip().rsplit(": ", 1) for line in listed.splitlines())

    def _mutants(
        self, folder: Path, module: Module, statuses: Mapping[str, str]
    ) -> tuple[Mutant, ...]:
        survivors = [name for name, status in statuses.items() if status not in KILLED]
        diffs = json.loads(self._python(folder, module, "-c", _DIFFS, *survivors))
        return tuple(
            Mutant(name, status, *changed(diffs[name]), diffs[name])
            if name in diffs
            else Mutant(name, status)
            for name, status in statuses.items()
        )

    def _python(self, folder: Path, module: Module, *arguments: str) -> str:
        path = os.pathsep.join([str(folder / "mutants" / "src"), str(self.tool)])
        here = {"PYTHONPATH": path, "SOTTO_TEST_BUNDLE": str(self.bundle)}
        here["OMP_NUM_THREADS"] = "1"  # mutants are what runs side by side
        ran = subprocess.run(
            [ROOT / module.environment / "bin" / "python", *arguments],
            cwd=folder,
            env=os.environ | here,
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        if ran.returncode:
            end = "\n".join((ran.stdout + ran.stderr).splitlines()[-30:])
            raise NotReady(
                f"mutmut failed on {module.name}:\n{end}",
                fix=f"see that {' '.join(module.tests)} pass on their own",
            )
        return ran.stdout


def changed(diff: str) -> tuple[str, str]:
    """Return a unified diff's removed and added text, each as one line without indentation."""
    body = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    gone = [line[1:].strip() for line in body if line.startswith("-")]
    come = [line[1:].strip() for line in body if line.startswith("+")]
    return " ".join(gone), " ".join(come)


def _parts(module: Module) -> list[str]:
    return [part for part in _PARTS if part != "cloud" or module.environment == ".venv"]


def _lay_out(folder: Path, module: Module) -> None:
    inside = folder / "mutants"
    (folder / "src" / "sottovoce").mkdir(parents=True)
    (inside / "src" / "sottovoce").mkdir(parents=True)
    for part in _parts(module):
        (folder / "src" / "sottovoce" / part).symlink_to(ROOT / _PARTS[part])
    for name in _LINKED:  # beside the mutated sources, as the tests find them
        (inside / name).symlink_to(ROOT / name)
    # A copy: mutmut copies it on, and would write through a link.
    shutil.copy(ROOT / "pyproject.toml", folder)


def _saved(file: Path) -> Any:
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def _read(saved: Mapping[str, Any]) -> Outcome:
    mutants = tuple(Mutant(**each) for each in saved["mutants"])
    return Outcome(mutants, saved["complete"], saved["left"])


def _begun(folder: Path, state: Mapping[str, str]) -> bool:
    """Return whether a run of the same state was interrupted; mutmut resumes it."""
    return bool(_saved(folder / "state.json") == state)


def _digest(files: Sequence[Path], *texts: str) -> str:
    parts = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\n".join([*parts, *texts]).encode()).hexdigest()


def _lines(values: Iterable[str]) -> str:
    """Format a list as mutmut reads it from an INI file."""
    return "\n".join(["", *values]).replace("%", "%%")
