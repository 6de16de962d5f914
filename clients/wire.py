"""Write the parts of the wire that the Python and Node clients carry: `python -m clients.wire`.

Each client installs from its own folder, so the folder holds a copy of what it needs of `protos/`.
The Python client has the stubs below its own name. Two packages that own the same files would
overwrite each other, and pip does not notice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from clients.builds import CLIENTS, PROTOS

__all__ = ["FOLDERS", "carried"]

_MODULES = ("edge_agent", "edge_chat", "generation", "training")
"""The agent's services for apps, and what their protos import."""
_NODE = CLIENTS / "node" / "protos" / "sottovoce" / "v1"
_PYTHON = CLIENTS / "python" / "sottovoce_client" / "v1"
FOLDERS = (_NODE, _PYTHON)


def carried() -> dict[Path, str]:
    """The text of each file that a client carries, by the file's path."""
    source = PROTOS / "sottovoce" / "v1"
    files = {_NODE / f"{name}.proto": (source / f"{name}.proto").read_text() for name in _MODULES}
    stubs = [f"{name}_pb2{kind}" for name in _MODULES for kind in (".py", ".pyi")]
    stubs += [f"{name}_pb2_grpc.py" for name in _MODULES if name.startswith("edge")]
    for name in stubs:
        stub = (source / name).read_text()
        files[_PYTHON / name] = stub.replace("from sottovoce.v1 ", "from sottovoce_client.v1 ")
    return files | {_PYTHON / "__init__.py": ""}


def main() -> None:
    """Write the copies anew."""
    for folder in FOLDERS:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for path, text in carried().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
