"""Messages for every method of a server: valid, altered or malformed."""

from __future__ import annotations

import random
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

CANARY: Final = "zorvekquil"
"""A word outside all lists, which must not appear in any log."""

KINDS: Final = ("valid", "altered", "malformed")
_STRINGS: Final = ("", CANARY, f"Anna {CANARY} was at home", "a" * 300, "balanced", "topics", "\0é")
_NUMBERS: Final = (0, 1, 2, 7, 255, 2**31 - 1)
_REALS: Final = (0.0, -1.0, 0.5, 30.0, 1e300, float("inf"), float("nan"))


def methods(services: tuple[str, ...]) -> list[MethodDescriptor]:
    """Return the methods of services with stubs in this process."""
    pool: Any = descriptor_pool.Default()
    return [method for name in services for method in pool.FindServiceByName(name).methods]


def made(kind: str, method: MethodDescriptor, chance: random.Random) -> bytes:
    """Return a message for the method: valid, damaged or random, by ``kind``."""
    if kind == "malformed":
        return chance.randbytes(chance.choice((1, 3, 40, 3_000)))
    message = message_factory.GetMessageClass(method.input_type)()
    _fill(message, chance, depth=3)
    data = message.SerializeToString()
    return _altered(data, chance) if kind == "altered" else data


def _altered(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data or b"\x0a")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(found))
        match chance.randrange(4):
            case 0:
                found[place] ^= 1 << chance.randrange(8)
            case 1:
                found.insert(place, chance.randrange(256))
            case 2 if len(found) > 1:
                del found[place]
            case _:
                found[place:place] = found[place : place + 20]
    return bytes(found)


def _fill(message: Message, chance: random.Random, depth: int) -> None:
    descriptor: Descriptor = message.DESCRIPTOR
    for field in descriptor.fields:
        if chance.random() < 0.3:
            continue
        if field.is_repeated:
            for _ in range(chance.randint(0, 3)):
                _put(message, field, chance, depth)
        else:
            _put(message, field, chance, depth)


def _put(message: Message, field: FieldDescriptor, chance: random.Random, depth: int) -> None:
    if field.message_type is not None:
        if depth and not field.message_type.GetOptions().map_entry:
            held = getattr(message, field.name)
            _fill(held.add() if field.is_repeated else held, chance, depth - 1)
        return
    value = _value(field, chance)
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _value(field: FieldDescriptor, chance: random.Random) -> object:
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).number
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = chance.choice(_STRINGS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return chance.choice(_REALS)
    return chance.choice(_NUMBERS)
