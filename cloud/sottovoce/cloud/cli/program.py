"""``sotto-cloud completion`` and ``version``: commands about the program itself."""

from __future__ import annotations

from sottovoce.core.platform.commands import completion_command, version_command

__all__ = ["completion", "version"]

version = version_command("sotto-cloud", "sottovoce-cloud")


completion = completion_command("sotto-cloud")
