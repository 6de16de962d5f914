"""Sessions of ONNX networks on a device."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.core.errors import DataLoss, Remedy
from sottovoce.core.text.onnx_file import check, check_file

__all__ = ["Session", "runtime", "session"]


def runtime() -> Any:
    """Import ``onnxruntime`` with its telemetry off; it takes 19 MB, so only networks import it.

    As released it reports its use to its makers over the network, unless a setting is made before
    the first import. So nothing else imports it.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime


class Session:
    """An opened network, which turns onnxruntime's exceptions into `DataLoss`.

    Those exceptions have no common parent, and a network comes from the provider, which is not
    trusted.
    """

    def __init__(self, opened: Any, name: str) -> None:
        self._opened = opened
        self._name = name

    def run(self, outputs: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the named outputs, or all.

        Raises:
            DataLoss: the network does not take these inputs, or fails.
        """
        try:
            found: list[Any] = self._opened.run(outputs, inputs)
        except Exception:
            raise _damaged(self._name, "it fails on a text") from None  # the cause may quote it
        return found


def session(model: bytes | str, threads: int = 1, *, name: str = "network") -> Session:
    """Open a session on the CPU that keeps no memory between runs.

    Args:
        model: the network, or the path of its file.
        threads: the most threads of one operator.
        name: of its file, for errors.

    Raises:
        DataLoss: it is no network, or has a part that none of our networks has, see `onnx_file`.
    """
    try:
        if isinstance(model, bytes):
            check(memoryview(model))
        else:
            check_file(Path(model))
        onnxruntime = runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # an arena keeps 3 MB, and saves a twentieth of time
        opened = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except ValueError as error:
        raise _damaged(name, str(error)) from None
    except Exception as error:
        raise _damaged(name, "onnxruntime does not take it") from error
    opened._model_bytes = None  # kept for a change of providers, and as large as the network
    return Session(opened, name)


def _damaged(name: str, problem: str) -> DataLoss:
    return DataLoss(
        f"the network {name} cannot be run: {problem}",
        fix=Remedy.RESTORE_BUNDLE,
        subject=name,
    )
