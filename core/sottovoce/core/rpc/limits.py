"""Size limits of requests, which the device and the cloud both enforce.

A device must spend no privacy on a request that the cloud will refuse, so each shared limit is
stated here and nowhere else. A provider may change some for a tenant: the cloud handles that, and
starts from these.
"""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The form of an adapter's or tenant's name: fit for a folder and the wire."""

FEWEST_EXAMPLES: Final = 8
FEWEST_PRIVATE_EXAMPLES: Final = 1_000
"""The fewest examples of a private adapter, unless the request overrides the limit.

With fewer, the noise for epsilon 8 is more than most tasks can bear.
"""

FEWEST_PUBLIC: Final = 32
"""The fewest unlabelled texts that PATE needs."""

MOST_EXAMPLES: Final = 200_000
MOST_LABELS: Final = 1_000

LARGEST_TEXT: Final = 64 << 10
"""The most bytes of UTF-8 in one example."""

LONGEST_LABEL: Final = 256
"""The most characters of a label."""

LARGEST_ADAPTER: Final = 8 << 20
"""The most bytes of an adapter that a device downloads; the device holds some in memory."""

LARGEST_MESSAGE: Final = 4 << 20
"""The most bytes of one message to or from the cloud."""

LARGEST_PADDING: Final = 16 << 10
"""The most bytes of padding in a message with one text.

It is two steps of `padding` at `LARGEST_TEXT`.
"""

LARGEST_PROMPT: Final = 256 << 10
"""The most bytes of UTF-8 in all turns of a conversation together, or in a text to continue."""

LARGEST_PROMPT_PADDING: Final = 64 << 10
"""The most bytes of padding in a message with a prompt: two steps of `padding` at its limit."""

MOST_TURNS: Final = 1_024
"""The most turns of a conversation."""

NEW_TOKENS: Final = 512
"""The most tokens to generate, if the request sets no number."""

MOST_NEW_TOKENS: Final = 8_192
HIGHEST_TEMPERATURE: Final = 2.0
HIGHEST_PENALTY: Final = 2.0
"""The largest penalty for presence or frequency, of either sign."""

WRITING_SECONDS: Final = 3600.0
"""The most seconds to generate one text, however slowly the client reads it."""

MOST_TOOLS: Final = 128
"""The most functions in a request."""

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of a function's name, in OpenAI's protocol."""

MOST_STOPS: Final = 16
LONGEST_STOP: Final = 256
"""The most bytes of UTF-8 in one stop string."""

MOST_PLAIN_TOKENS: Final = 64
"""The most plain tokens in front of one example."""

MOST_SEQUENCES: Final = 10_000
"""The most sequences of plain tokens that examples choose from."""
