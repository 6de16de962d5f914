"""``sotto-models completion``."""

from __future__ import annotations

from sottovoce.core.platform.commands import completion_command

command = completion_command("sotto-models")
