"""The mutated modules, their tests and the excused mutants, read from a TOML file.

A module's tests are listed one by one, because the cost of a mutant is the time of its tests. An
excuse is tied to the text of the line and its mutation, not to line numbers. So it survives edits
elsewhere, and ends with its line.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.errors import InvalidInput


@dataclass(frozen=True)
class Module:
    """A source file and its tests, both as paths from the repository's root.

    ``without`` names tests of those files, as pytest does, that take too long for every mutant.
    """

    source: str
    tests: tuple[str, ...]
    without: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path inside the namespace: ``core/privacy/noise``."""
        return self.source.partition("/sottovoce/")[2].removesuffix(".py")

    @property
    def environment(self) -> str:
        """Where its tests run: the device's sources without torch."""
        return ".venv-edge" if self.source.startswith("edge/") else ".venv"


@dataclass(frozen=True)
class Excuse:
    """The reason why no test can, or should, notice a mutation.

    ``line`` is the removed text and ``mutant`` the added text, as `changed` in `runs` returns them.
    """

    module: str
    line: str
    mutant: str
    reason: str


@dataclass(frozen=True)
class Suite:
    """The file's contents.

    Attributes:
        modules: the modules to mutate.
        excuses: excuses of single mutations.
        wording: regular expressions of lines that are not mutated.
        caseless: regular expressions of lines that mean the same in capitals and in small
            letters.
    """

    modules: tuple[Module, ...]
    excuses: tuple[Excuse, ...]
    wording: tuple[str, ...] = ()
    caseless: tuple[str, ...] = ()

    @classmethod
    def load(cls, file: Path) -> Suite:
        """Reads ``file``.

        Raises:
            InvalidInput: an excuse names no module of the file, or gives no reason.
        """
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        modules = tuple(
            Module(each["source"], tuple(each["tests"]), tuple(each.get("without", ())))
            for each in data["module"]
        )
        excuses = tuple(Excuse(**each) for each in data.get("excuse", ()))
        names = {module.name for module in modules}
        for excuse in excuses:
            if excuse.module not in names or not excuse.reason.strip():
                raise InvalidInput(
                    f"the excuse for {excuse.line!r} in {excuse.module!r} is incomplete",
                    fix="name a module of the file and give a reason",
                )
        return cls(modules, excuses, tuple(data["wording"]), tuple(data["caseless"]))

    def excuses_of(self, module: Module) -> tuple[Excuse, ...]:
        """Return the excuses of one module."""
        return tuple(excuse for excuse in self.excuses if excuse.module == module.name)

    def stale(self, module: Module, source: str) -> tuple[Excuse, ...]:
        """Return excuses for lines that the module's source no longer has."""
        words = _one_line(source)
        return tuple(each for each in self.excuses_of(module) if _one_line(each.line) not in words)

    def is_spelling(self, line: str, mutant: str) -> bool:
        """Whether a mutation writes a caseless line in letters of another case, and no more.

        What SQL quotes has a case.
        """
        same = line.lower() == mutant.lower() and _quoted(line) == _quoted(mutant)
        return same and any(re.search(pattern, line) for pattern in self.caseless)

    def chosen(self, names: tuple[str, ...]) -> tuple[Module, ...]:
        """Return the modules whose path ends in one of ``names`` (``noise``, ``privacy/noise``).

        Raises:
            InvalidInput: a name fits none.
        """
        found: dict[str, Module] = {}
        for name in names:
            fitting = [m for m in self.modules if f"/{m.name}".endswith(f"/{name}")]
            if not fitting:
                known = ", ".join(module.name for module in self.modules)
                raise InvalidInput(f"no module {name!r}", fix=f"choose from {known}")
            found |= {module.name: module for module in fitting}
        return tuple(found.values()) if names else self.modules


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(line: str) -> list[str]:
    return re.findall(r"'[^']*'", line)
