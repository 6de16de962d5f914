"""PromptPATE's teachers: ask a server's model for a public text's label.

A prompt ends where the label belongs. A teacher's vote may depend only on its own examples and the
text. So a prompt that the model refuses for its length names no label, and the vote goes on. A call
that no thread waits for is cut off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

from sottovoce.core.errors import InvalidInput, Overloaded, Unavailable
from sottovoce.core.privacy.votes import NOBODY
from sottovoce.edge.client.log_probabilities import NextTokens, likeliest

__all__ = ["Teachers"]

_ATTEMPTS: Final = 5
_PAUSE: Final = 0.5
"""Seconds before the second attempt; doubles before each further attempt."""

_NOTHING_PRIVATE: Final = "Text: it is fine\nLabel: good\n\nText: it is awful\nLabel:"


class Teachers:
    """Teachers of a vote.

    Args:
        model: reads the prompts.
        labels: in the order of their places.
        most: largest number of examples in a prompt.
        at_once: number of concurrent calls.
    """

    def __init__(self, model: NextTokens, labels: Sequence[str], most: int, at_once: int) -> None:
        self._model = model
        self._labels = labels
        self._most = most
        self._at_once = at_once
        self._stopped = threading.Event()
        self._calls: dict[int, Callable[[], None]] = {}

    def check(self) -> None:
        """Send a request without private content, to find a wrong address before paying.

        Raises:
            Unavailable and others: the model does not answer as it must.
        """
        self._model.after(_NOTHING_PRIVATE)

    def votes(self, shots: Sequence[tuple[str, str]], texts: Sequence[str]) -> list[int]:
        """Return one teacher's votes: for each text the place of a label, or `NOBODY`.

        `NOBODY` means that the teacher names no label.

        Args:
            shots: the teacher's own examples, released, with their labels.
            texts: released.

        Raises:
            Unavailable, Overloaded: the model does not answer, even after retries.
        """
        head = f"One of these labels suits each text: {', '.join(self._labels)}.\n\n"
        head += "".join(f"Text: {text}\nLabel: {label}\n\n" for text, label in shots[: self._most])

        def vote(text: str) -> int:
            found = self._named(f"{head}Text: {text}\nLabel:")
            return NOBODY if found is None else found

        with ThreadPoolExecutor(self._at_once) as pool:
            cast = [pool.submit(vote, text) for text in texts]
            try:
                for each in as_completed(cast):
                    each.result()
            except BaseException:  # also after Ctrl-C: do not wait for running calls
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for cut in [*self._calls.values()]:
                    cut()
                raise
        return [each.result() for each in cast]

    def _named(self, prompt: str) -> int | None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return likeliest(self._model.after(prompt, self._note), self._labels)
            except InvalidInput:
                return None
            except (Unavailable, Overloaded):
                if attempt == _ATTEMPTS or self._stopped.wait(_PAUSE * 2 ** (attempt - 1)):
                    raise
        raise AssertionError("not reached")

    def _note(self, cut: Callable[[], None]) -> None:
        """Note how to end the call of this thread."""
        self._calls[threading.get_ident()] = cut
        if self._stopped.is_set():
            cut()
