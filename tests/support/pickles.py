"""Find the calls that would read a pickle. Only `multiprocessing` may use pickles."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_READERS = frozenset(
    [
        "_pickle",
        "cloudpickle",
        "copyreg",
        "dill",
        "joblib",
        "jsonpickle",
        "marshal",
        "pickle",
        "pickletools",
        "shelve",
    ]
)
"""Modules that read pickles, or code in other clothes."""
_ASKED = {"numpy": ("allow_pickle", False), "torch": ("weights_only", True)}
"""What their ``load`` has to be given, as the default was another once."""
_WEIGHTS = ("use_safetensors", True)


def pickles(source: str) -> list[str]:
    """Return the places in a module that would read a pickle, as "LINE: call"."""
    tree = ast.parse(source)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    return [f"{line}: {what}" for line, what in sorted(_found(tree, modules))]


def _found(tree: ast.AST, modules: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _imported(node):
                if name.partition(".")[0] in _READERS:
                    yield node.lineno, f"imports {name}"
                elif name.rpartition(".") in (("numpy", ".", "load"), ("torch", ".", "load")):
                    yield node.lineno, f"imports {name}: its callers cannot be told apart"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, ast.unparse(node.func.value)
            asked = _ASKED.get(modules.get(owner, owner)) if name == "load" else None
            if name == "from_pretrained" and "Model" in owner:
                asked = _WEIGHTS
            if asked is not None and not _given(node, *asked):
                yield node.lineno, f"{owner}.{name} without {asked[0]}={asked[1]}"
            if name in ("read_pickle", "to_pickle"):
                yield node.lineno, f"{owner}.{name}"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names if not node.level]


def _given(call: ast.Call, name: str, value: bool) -> bool:
    words = {keyword.arg: keyword.value for keyword in call.keywords}
    found = words.get(name)
    return isinstance(found, ast.Constant) and found.value is value
