"""ONNX files written by hand: where the device's tests run, there is no package for it."""

from __future__ import annotations


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def node(kind: str, *more: bytes, inputs: tuple[str, ...] = (), outputs: tuple[str, ...]) -> bytes:
    """Return a node's message; ``more`` are further fields."""
    given = b"".join(field(1, name) for name in inputs)
    made = b"".join(field(2, name) for name in outputs)
    return given + made + field(4, kind) + b"".join(more)


def tensor(name: str, data: bytes, kind: int = 2, *more: bytes) -> bytes:
    """A tensor of one dimension, of bytes unless ``kind`` says otherwise."""
    size = {1: 4, 2: 1, 7: 8, 9: 1}.get(kind, 1)
    shape = field(1, len(data) // size)
    return shape + field(2, kind) + field(8, name) + field(9, data) + b"".join(more)


def _value(name: str, kind: int) -> bytes:
    """A value without dimensions, of a type of `tensor`."""
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, b"")))


def graph(nodes: tuple[bytes, ...], *more: bytes) -> bytes:
    """Return a graph's message; ``more`` are further fields."""
    return b"".join(field(1, each) for each in nodes) + field(2, "graph") + b"".join(more)


def model(inner: bytes, *more: bytes, opset: int = 18) -> bytes:
    """A whole file."""
    return field(1, 9) + field(7, inner) + field(8, field(2, opset)) + b"".join(more)


def loop() -> bytes:
    """Return a network that never ends: a loop with a condition that stays true."""
    copies = [
        node("Identity", inputs=(came,), outputs=(left,))
        for came, left in (("go", "on"), ("state", "next"))
    ]
    given, made = (("step", 7), ("go", 9), ("state", 9)), (("on", 9), ("next", 9))
    body = graph(
        tuple(copies),
        *(field(11, _value(*each)) for each in given),
        *(field(12, _value(*each)) for each in made),
    )
    attribute = field(1, "body") + field(6, body) + field(20, 5)
    true = field(2, 9) + field(8, "true") + field(9, b"\1")
    looped = node("Loop", field(5, attribute), inputs=("", "true", "true"), outputs=("end",))
    done = node("Identity", inputs=("end",), outputs=("logits",))
    return model(graph((looped, done), field(5, true), field(12, _value("logits", 9))))


def _varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])
