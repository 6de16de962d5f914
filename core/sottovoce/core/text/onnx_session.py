"""Sessions of ONNX networks as a device runs them."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["runtime", "session"]


def runtime() -> Any:
    """The module ``onnxruntime``, told to tell nobody that it runs; 19 MB, for who runs a network.

    As released it says so to its makers, over the network, unless this is set before it is first
    imported: so nothing else imports it.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime


def session(model: bytes | str, threads: int = 1) -> Any:
    """A session on the CPU that keeps no memory between runs.

    Args:
        model: the network, or the path of its file.
        threads: that one operator may take.

    Raises:
        Exception: of onnxruntime's own kinds, which have no narrower parent: it is no network.
    """
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # an arena keeps 3 MB, and saves a twentieth of time
    opened = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    opened._model_bytes = None  # kept for a change of providers, and as large as the network
    return opened
