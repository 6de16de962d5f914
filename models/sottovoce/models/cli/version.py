"""``sotto-models version``."""

from __future__ import annotations

from sottovoce.core.platform.commands import version_command

command = version_command("sotto-models", "sottovoce-models")
