"""Damage one file of a side: the side must refuse it by name, or work as before.

The device's files are a pulled and signed bundle, a configuration, and a state with releases and
charges. Afterwards the device gets seen and unseen texts and reports its ledger. The cloud's files
are in `damaged_cloud`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from soak.campaign.tally import Tally
from sottovoce.core.errors import SottovoceError
from sottovoce.edge.config import Config
from sottovoce.edge.tasks.parts import status
from sottovoce.edge.tasks.privatize import to_response
from tests.support.agent import configured, opened
from tests.support.signing import lay_pulled
from tests.support.small_bundle import LexiconTagger

_SEEN: Final = "The doctor was in the garden with Anna, at anna.marsh@example.org"
_UNSEEN: Final = "A cold morning by the river, and 4711 letters"


@dataclass(frozen=True, slots=True)
class World:
    """A set of files to damage.

    Attributes:
        make: writes the files into a folder; each call makes new secrets.
        asked: returns the side's answers, of which the first must never be lost, or raises its
            refusal.
        known: files that may take effect when changed, with the reason.
    """

    make: Callable[[Path], None]
    asked: Callable[[Path], tuple[bytes, ...]]
    known: Mapping[str, str]


Rule = Callable[[bytes, bytes, random.Random], bytes | None]
"""A file's new content, from its old content, another file's content and a random source."""


def _flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) * 8)
    return b"".join(
        (data[: place // 8], bytes([data[place // 8] ^ 1 << place % 8]), data[place // 8 + 1 :])
    )


def _zero(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Zero one sector, as disks lose them."""
    start = chance.randrange(len(data)) // 512 * 512
    end = min(start + 512, len(data))
    return data[:start] + bytes(end - start) + data[end:]


RULES: Final[dict[str, Rule]] = {
    "flip": _flip,
    "zero": _zero,
    "truncate": lambda data, other, chance: data[: chance.randrange(len(data))],
    "delete": lambda data, other, chance: None,
    "empty": lambda data, other, chance: b"",
    "swap": lambda data, other, chance: other,
}


def damage(attacked: World, folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
    """Apply each of ``trials`` to a fresh world.

    Args:
        attacked: the files to damage.
        folder: an empty folder to work in.
        trials: trial numbers; each selects a file and a rule, and with the seed the position.
    """
    world, kept, other = folder / "world", folder / "kept", folder / "other"
    for place in (other, kept):
        attacked.make(world)
        world.rename(place)
    _lay(kept, world)
    before = attacked.asked(world)
    files = sorted(
        path.relative_to(kept)
        for path in kept.rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix != ".lock"
    )
    cases = [(file, rule) for file in files for rule in RULES]
    random.Random(len(cases)).shuffle(cases)  # so that a few trials are of many files
    for trial in trials:
        chance = random.Random(f"{seed} {trial}")
        file, rule = cases[trial % len(cases)]
        _lay(kept, world)
        _damage(world / file, rule, _another(kept, other, file, files), chance)
        try:
            after = attacked.asked(world)
        except SottovoceError as error:
            if _leaks(str(error)):
                tally.fault("leaked", trial, f"{rule} of {file.name}: {error}")
            elif type(error) is SottovoceError:
                tally.fault("unexplained", trial, f"{rule} of {file.name}: {error}")
            else:
                tally.ended(f"refused: {type(error).__name__}")
        except Exception as error:
            tally.fault("unexplained", trial, f"{rule} of {file.name}: {error!r}"[:200])
        else:
            if after == before:
                tally.ended("as it was")
            elif file.name in attacked.known:
                tally.ended(attacked.known[file.name])
            else:
                kind = "lost" if after[0] != before[0] else "unexplained"
                tally.fault(kind, trial, f"{rule} of {file.name} was obeyed")


def device(bundle: Path) -> World:
    """Return the world of a device with the small bundle."""
    settings = "other settings of the owner's"
    known = {"token": settings, "agent.toml": settings}
    return World(lambda world: _make(world, bundle), _asked, known)


def _configured(world: Path) -> Config:
    return configured(world, SOTTO_CONFIG=str(world / "agent.toml"))


def _make(world: Path, bundle: Path) -> None:
    world.mkdir()
    (world / "agent.toml").write_text(
        '[privacy]\nlevel = "balanced"\npolicy = "content"\n', encoding="utf-8"
    )
    config = _configured(world)
    lay_pulled(config, bundle, Ed25519PrivateKey.generate())
    with opened(config, LexiconTagger()) as device:
        for text in (_SEEN, f"{_SEEN} once more"):
            device.releases.release(text, device.default)


def _lay(kept: Path, world: Path) -> None:
    if world.exists():
        shutil.rmtree(world)
    shutil.copytree(kept, world, symlinks=True)


def _another(kept: Path, other: Path, file: Path, files: list[Path]) -> bytes:
    """Return the same file of another device, or the next file's content if both are equal."""
    theirs = other / file
    if theirs.is_file() and theirs.read_bytes() != (kept / file).read_bytes():
        return theirs.read_bytes()
    place = files.index(file)
    return (kept / files[(place + 1) % len(files)]).read_bytes()


def _damage(file: Path, rule: str, other: bytes, chance: random.Random) -> None:
    data = RULES[rule](file.read_bytes(), other, chance)
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def _asked(world: Path) -> tuple[bytes, ...]:
    """Return the ledger, and the releases of a seen and an unseen text."""
    with opened(_configured(world), LexiconTagger()) as device:
        spent = status(device).ledger.SerializeToString(deterministic=True)
        answers = [
            to_response(
                device.releases.release(text, device.default), words=False
            ).SerializeToString(deterministic=True)
            for text in (_SEEN, _UNSEEN)
        ]
    return spent, *answers


def _leaks(message: str) -> bool:
    return any(word in message for word in ("doctor", "marsh", "4711"))
