"""An unknown network is refused before a runtime sees it."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import DataLoss
from sottovoce.core.text import onnx_models
from sottovoce.core.text.onnx_models import check, check_file, weights
from tests.support.onnx_bytes import field, graph, loop, model, node, tensor
from tests.support.paths import MODELS, ROOT

SHIPPED = sorted(MODELS.rglob("*.onnx"))
WEIGHT = tensor("w", b"12345678")
GOOD = node("Identity", inputs=("w",), outputs=("y",))


def of(*nodes: bytes, more: bytes = b"") -> bytes:
    return model(graph(nodes, field(5, WEIGHT), more))


def attribute(*inner: bytes) -> bytes:
    return field(5, field(1, "a") + b"".join(inner))


SUBGRAPH = graph((GOOD,))
REFUSED = {
    "loop": (loop(), "field 6 of a attribute"),
    "a loop without a body": (of(node("Loop", outputs=("y",))), "'Loop'"),
    "a branch": (of(node("If", outputs=("y",))), "'If'"),
    "a scan": (of(node("Scan", outputs=("y",))), "'Scan'"),
    "a graph within a node that is admitted": (
        of(node("Identity", attribute(field(6, SUBGRAPH)), outputs=("y",))),
        "field 6 of a attribute",
    ),
    "graphs within a node": (
        of(node("Identity", attribute(field(11, SUBGRAPH)), outputs=("y",))),
        "field 11",
    ),
    "another library's operator": (
        of(node("Add", field(7, "com.microsoft"), outputs=("y",))),
        "'com.microsoft:Add'",
    ),
    "a name that looks like a domain": (of(node("com.microsoft:MatMulNBits", outputs=("y",))), ""),
    "two names": (of(node("Add", field(4, "Add"), outputs=("y",))), "operator"),
    "two domains": (of(node("Add", field(7, "evil"), field(7, ""), outputs=("y",))), "operator"),
    "no name": (of(field(2, "y")), "operator"),
    "an overload of a function": (of(node("Add", field(8, "x"), outputs=("y",))), "field 8"),
    "a function": (model(graph((GOOD,)), field(25, b"")), "field 25 of a model"),
    "training": (model(graph((GOOD,)), field(20, b"")), "field 20 of a model"),
    "two graphs": (model(graph((GOOD,)), field(7, graph((GOOD,)))), "2 graphs"),
    "no graph": (field(1, 9) + field(8, field(2, 18)), "0 graphs"),
    "a sparse weight": (of(GOOD, more=field(15, b"")), "field 15 of a graph"),
    "a weight in another file": (
        of(GOOD, more=field(5, tensor("v", b"", 2, field(13, b"")))),
        "field 13 of a tensor",
    ),
    "a weight said to be elsewhere": (
        of(GOOD, more=field(5, tensor("v", b"", 2, field(14, 1)))),
        "in another file",
    ),
    "texts": (of(GOOD, more=field(5, tensor("v", b"", 8))), "type 8"),
    "a weight larger than its bytes": (
        of(GOOD, more=field(5, field(1, 1 << 40) + field(2, 1) + field(8, "v"))),
        "another size",
    ),
    "a weight of many dimensions": (
        of(GOOD, more=field(5, field(1, 1) * 9 + field(2, 2) + field(9, b"x"))),
        "9 dimensions",
    ),
    "many packed dimensions": (
        of(GOOD, more=field(5, field(1, b"\1" * 900) + field(2, 2) + field(9, b"x"))),
        "more than 8 dimensions",
    ),
    "a constant larger than its bytes": (
        of(node("Identity", attribute(field(5, field(1, 1 << 40) + field(2, 1))), outputs=("y",))),
        "another size",
    ),
    "operators of the future": (model(graph((GOOD,)), opset=99), "operator sets"),
    "two sets of operators": (model(graph((GOOD,)), field(8, field(2, 18))), "operator sets"),
    "many nodes": (of(*[GOOD] * 20_001), "more than 20000"),
    "a long name": (of(node("A" * 300, outputs=("y",))), "more than 256"),
    "a name in another form": (of(field(4, 1)), "another form"),
    "a field of a group": (of(GOOD) + bytes([7 << 3 | 3]), "not an ONNX file"),
    "a tag of ten bytes": (of(GOOD) + b"\xba\x80\x80\x80\x80\x80\x80\x80\x80\x01\0", "not an ONNX"),
    "nothing": (b"", "0 graphs"),
    "text": (b"this is text, and no network at all", ""),
}


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_networks_of_ours_pass(file: Path) -> None:
    check(memoryview(file.read_bytes()))
    check_file(file)


def test_a_file_written_by_hand_passes_and_runs() -> None:
    value = field(1, "y") + field(2, field(1, field(1, 2) + field(2, field(1, field(1, 8)))))
    data = of(node("Identity", inputs=("w",), outputs=("y",)), more=field(12, value))
    (found,) = onnx_models.session(data).run(None, {})
    assert bytes(found) == b"12345678"


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_network_of_ours_has_is_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, said = REFUSED[what]
    with pytest.raises(ValueError, match=said or "."):
        check(memoryview(data))
    monkeypatch.setattr(onnx_models, "runtime", None)  # nothing may be asked of it
    file = tmp_path / "network.onnx"
    file.write_bytes(data)
    for given_as in (data, str(file)):
        with pytest.raises(DataLoss, match="the network names"):
            onnx_models.session(given_as, name="names")


def test_what_onnxruntime_does_not_take_is_an_error_of_ours() -> None:
    missing = model(graph((node("Identity", inputs=("nowhere",), outputs=("y",)),)))
    check(memoryview(missing))
    with pytest.raises(DataLoss, match="does not take it"):
        onnx_models.session(missing)


def test_a_network_that_does_not_take_its_inputs_is_an_error_of_ours() -> None:
    opened = onnx_models.session((MODELS / "tagger" / "tagger.onnx").read_bytes(), name="tagger")
    with pytest.raises(DataLoss, match="tagger"):
        opened.run(None, {"rows": [[1]]})


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_damaged_file_is_refused_or_passes_and_nothing_else(file: Path) -> None:
    sound = file.read_bytes()
    chance = random.Random(3)
    for _ in range(100):
        damaged = bytearray(sound)
        for _ in range(3):
            damaged[chance.randrange(len(damaged) // 50)] ^= 1 << chance.randrange(8)
        del damaged[chance.randrange(len(damaged)) :]
        try:
            check(memoryview(bytes(damaged)))
        except ValueError:
            continue


@given(st.binary(max_size=300))
def test_no_bytes_but_a_network_pass(data: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        check(memoryview(data + b"\xff"))


QUIET = """
import sys
from sottovoce.core.text.onnx_models import session
session(sys.argv[1])
"""


def test_the_runtime_gathers_nothing_for_its_makers(tmp_path: Path) -> None:
    """Telemetry would first write a database below the user's folder."""
    model = next(MODELS.rglob("*.onnx"))
    unset = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_DATA_HOME"}
    world = {name: value for name, value in os.environ.items() if name not in unset}
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", QUIET, str(model)]
    subprocess.run(command, check=True, env=world | home)
    assert not list(tmp_path.iterdir())


def test_nothing_else_imports_the_runtime() -> None:
    """Any import of a part must follow a call of ``runtime()``."""
    found = set()
    for folder in ("core", "edge", "cloud", "bench", "examples", "deploy", "clients", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for function in ast.walk(ast.parse(text)) if "onnx" in text else ():
                found |= {
                    f"{path.relative_to(ROOT)}:{line.lineno}"
                    for before, line in _pairs(function)
                    if _imports(line) and "runtime()" not in ast.unparse(before)
                }
    home = "core/sottovoce/core/text/onnx_models.py"
    assert {place.partition(":")[0] for place in found} == {home}


def _pairs(node: ast.AST) -> list[tuple[ast.AST, ast.stmt]]:
    """Each line of a block with the one before it that is no import itself."""
    body = getattr(node, "body", [])
    if not isinstance(body, list):
        return []
    before: ast.AST = ast.Pass()
    pairs = []
    for line in body:
        pairs.append((before, line))
        if not isinstance(line, ast.Import | ast.ImportFrom):
            before = line
    return pairs


def _imports(line: ast.stmt) -> bool:
    if isinstance(line, ast.Import):
        return any(name.name.split(".")[0] == "onnxruntime" for name in line.names)
    return isinstance(line, ast.ImportFrom) and (line.module or "").split(".")[0] == "onnxruntime"


MODEL = (MODELS / "names" / "names.onnx").read_bytes()


def test_reads_the_constants_of_the_shipped_network() -> None:
    found = weights(MODEL)
    assert found["table.whole"].shape == (20_992, 24)
    assert found["table.whole"].dtype == np.int8
    assert found["mix.scale"].dtype == np.float32
    assert np.abs(found["table.whole"]).max() == 127  # so the builder rounds
    assert found["pad2"].tolist() == [3, 0, 3, 0]


def packed(number: int, data: bytes) -> bytes:
    """A field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(data)]) + data


def test_reads_a_file_written_by_hand() -> None:
    tensor = (
        bytes([1 << 3, 2, 1 << 3, 1, 2 << 3, 1]) + packed(8, b"w") + packed(9, b"\0\0\x80?" * 2)
    )
    model = bytes([1 << 3, 9]) + packed(7, packed(1, b"") + packed(5, tensor))
    (name, array), *others = weights(model).items()
    assert (name, array.tolist(), others) == ("w", [[1.0], [1.0]], [])


@pytest.mark.parametrize(
    "damaged",
    [
        MODEL[: len(MODEL) // 2],
        packed(7, packed(5, packed(8, b"w"))),
        packed(7, packed(5, bytes([2 << 3, 99]) + packed(8, b"w") + packed(9, b"0000"))),
        packed(7, packed(5, bytes([1 << 3, 3, 2 << 3, 1]) + packed(8, b"w") + packed(9, b"0000"))),
        bytes([7 << 3, 1]),
    ],
)
def test_refuses_what_is_no_such_file(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an ONNX|reshape|cut short"):
        weights(damaged)
