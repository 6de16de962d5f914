"""``sotto completion``."""

from __future__ import annotations

from sottovoce.core.platform.commands import completion_command

__all__ = ["command"]

command = completion_command("sotto")
