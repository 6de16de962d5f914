"""Texts with planted secrets, and the many forms a secret could take on a wire."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHELLS = (
    "Please ask {} to ring me about the kitchen sink",
    "My account {} was charged twice this month",
    "Send the plumber to {} before noon",
    "The reference is {} and nobody answers",
    "{} said the heating would work again today",
    "I wrote to {} last week about the mice",
)


@dataclass(frozen=True)
class Canary:
    """A secret and the message that holds it."""

    secret: str
    message: str


def plant(vocabulary: set[str], count: int = 200, seed: int = 7) -> list[Canary]:
    """Made-up words, numbers, addresses and codes, a quarter each, all different."""
    draw = random.Random(seed)
    makers = (_word, _number, _address, _code)
    secrets: dict[str, None] = {}
    while len(secrets) < count:
        secret = makers[len(secrets) % 4](draw)
        if secret.lower() not in vocabulary:
            secrets[secret] = None
    return [
        Canary(secret, draw.choice(SHELLS).format(secret)) for number, secret in enumerate(secrets)
    ]


def _word(draw: random.Random) -> str:
    parts = ("zor", "vek", "quil", "mab", "thru", "plex", "dwi", "nog", "fahl", "rysk", "ub", "ixo")
    return "".join(draw.sample(parts, 4)).capitalize()


def _number(draw: random.Random) -> str:
    return draw.choice(
        (
            f"{draw.randrange(10**9, 10**10)}",
            f"07700 {draw.randrange(900000, 900999)}{draw.randrange(10)}".replace(" ", "-"),
            f"{draw.randrange(10**5, 10**6)}.{draw.randrange(10, 99)}",
        )
    )


def _address(draw: random.Random) -> str:
    name = _word(draw).lower()
    return draw.choice(
        (f"{name}@example.org", f"https://{name}.example.com/{name[:5]}", f"@{name}")
    )


def _code(draw: random.Random) -> str:
    letters = "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=3))
    return draw.choice(
        (f"{letters}-{draw.randrange(10**5, 10**6)}", f"{letters}{draw.randrange(10**6, 10**7)}K")
    )


def as_token_ids(ids: Sequence[int]) -> Iterator[bytes]:
    """A sequence of token ids in every encoding it might travel in."""
    yield b"".join(_varint(i) for i in ids)
    for layout in ("<i", ">i", "<q", ">q", "<H", ">H"):
        yield b"".join(struct.pack(layout, i) for i in ids)
    for separator in (" ", ",", ", "):
        yield separator.join(map(str, ids)).encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
