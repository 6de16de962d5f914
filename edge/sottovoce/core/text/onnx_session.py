"""Sessions of ONNX networks as a device runs them."""

from __future__ import annotations

from typing import Any

__all__ = ["session"]


def session(model: bytes | str, threads: int = 1) -> Any:
    """A session on the CPU that keeps no memory between runs.

    Args:
        model: the network, or the path of its file.
        threads: that one operator may take.

    Raises:
        Exception: of onnxruntime's own kinds, which have no narrower parent: it is no network.
    """
    import onnxruntime  # 19 MB, for who runs a network

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # an arena keeps 3 MB, and saves a twentieth of time
    opened = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    opened._model_bytes = None  # kept for a change of providers, and as large as the network
    return opened
