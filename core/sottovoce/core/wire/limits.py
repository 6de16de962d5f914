"""How large what is asked may be: what the device refuses to send, and the cloud to take.

Why it is here: a device must spend no privacy on what the cloud will refuse, so a limit that
both keep is stated here and nowhere else. What a provider may change for a tenant is the cloud's
affair, and begins with these.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "FEWEST_EXAMPLES",
    "FEWEST_PRIVATE_EXAMPLES",
    "FEWEST_PUBLIC",
    "HIGHEST_TEMPERATURE",
    "LARGEST_ADAPTER",
    "LARGEST_MESSAGE",
    "LARGEST_PADDING",
    "LARGEST_PROMPT",
    "LARGEST_PROMPT_PADDING",
    "LARGEST_TEXT",
    "LONGEST_LABEL",
    "LONGEST_STOP",
    "MOST_EXAMPLES",
    "MOST_LABELS",
    "MOST_NEW_TOKENS",
    "MOST_PLAIN_TOKENS",
    "MOST_SEQUENCES",
    "MOST_STOPS",
    "MOST_TURNS",
    "NAME",
    "NEW_TOKENS",
    "WRITING_SECONDS",
]

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Of an adapter or a tenant: fit for a folder and the wire."""

FEWEST_EXAMPLES: Final = 8
FEWEST_PRIVATE_EXAMPLES: Final = 1_000
"""With fewer, a private adapter is refused unless it is asked for in spite of that: what epsilon 8
takes is more than most tasks can bear."""

FEWEST_PUBLIC: Final = 32
"""Texts without a label that PATE needs."""

MOST_EXAMPLES: Final = 200_000
MOST_LABELS: Final = 1_000

LARGEST_TEXT: Final = 64 << 10
"""Bytes of UTF-8 in one example."""

LONGEST_LABEL: Final = 256
"""Characters."""

LARGEST_ADAPTER: Final = 8 << 20
"""Bytes of an adapter that is handed to a device, which holds some in memory."""

LARGEST_MESSAGE: Final = 4 << 20
"""Bytes of one message to or from the cloud."""

LARGEST_PADDING: Final = 16 << 10
"""Bytes of it in a message that holds one text: two steps of `padding` at `LARGEST_TEXT`."""

LARGEST_PROMPT: Final = 256 << 10
"""Bytes of UTF-8 in all turns of a conversation together, or in a text to continue."""

LARGEST_PROMPT_PADDING: Final = 64 << 10
"""Bytes of it in a message that holds one of those: two steps of `padding` there."""

MOST_TURNS: Final = 1_024
"""Turns of a conversation."""

NEW_TOKENS: Final = 512
"""Tokens that are written at most where nothing is said."""

MOST_NEW_TOKENS: Final = 8_192
HIGHEST_TEMPERATURE: Final = 2.0

WRITING_SECONDS: Final = 3600.0
"""That one text may take, however slowly its reader takes it."""

MOST_STOPS: Final = 16
LONGEST_STOP: Final = 256
"""Bytes of UTF-8 in one string that ends a text."""

MOST_PLAIN_TOKENS: Final = 64
"""In front of one example."""

MOST_SEQUENCES: Final = 10_000
"""Sequences of plain tokens that examples choose from."""
