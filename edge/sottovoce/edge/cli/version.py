"""``sotto version``."""

from __future__ import annotations

from sottovoce.core.platform.commands import version_command

__all__ = ["command"]

command = version_command("sotto", "sottovoce-edge")
