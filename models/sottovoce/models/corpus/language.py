"""The description of a language, beside its words and their tags.

No other module depends on one language. A bundle for another language needs a description like
this, text to count words in, a tagger, and a backbone that knows the words. The description travels
with the word counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Self

from sottovoce.core.errors import DataLoss, NotFound
from sottovoce.core.text import frequencies


@dataclass(frozen=True, slots=True)
class Language:
    """One language, as the builder sees it. Without arguments, an unknown one."""

    code: str = "und"
    """BCP 47 code, for example "en" or "de"."""
    clitics: tuple[str, ...] = ()
    """Endings that count as words, in small letters, with the typewriter's apostrophe."""
    accents: bool = False
    """Whether words that differ only in accents are counted apart."""
    carriers: tuple[tuple[str | None, ...], ...] = ((None, "."),)
    """Neutral sentences, cut into words. None marks the place of an unknown word to tag."""

    def normal_form(self, word: str) -> str:
        """Return the form in which ``word`` is counted.

        It has small letters and a plain apostrophe. Accents stay only if the language keeps them.

        >>> Language().normal_form("Café’s"), Language(accents=True).normal_form("Schön")
        ("cafe's", 'schön')
        """
        return frequencies.normal_form(word, accents=self.accents)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read the output of `to_dict`.

        Raises:
            ValueError, TypeError, KeyError: it is no description.
        """
        found = cls(
            code=str(raw["code"]),
            clitics=tuple(str(ending) for ending in raw["clitics"]),
            accents=bool(raw["accents"]),
            carriers=tuple(tuple(carrier) for carrier in raw["carriers"]),
        )
        if any(ending != found._plain(ending) for ending in found.clitics):
            raise ValueError("clitics")
        if not found.carriers or any(carrier.count(None) != 1 for carrier in found.carriers):
            raise ValueError("carriers")
        return found

    @staticmethod
    def _plain(ending: str) -> str:
        return ending.lower().replace("’", "'")


def load_language(name: str) -> Language:
    """Load the description of a language.

    Args:
        name: the code of a language that comes with the package, or a JSON file.

    Raises:
        NotFound: there is neither.
        DataLoss: the file describes no language.
    """
    shipped = resources.files("sottovoce.models") / "languages" / f"{name}.json"
    source = shipped if name.isalpha() and shipped.is_file() else Path(name)
    try:
        return Language.from_dict(json.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise NotFound(
            f"no description of a language at {name}",
            fix='name a JSON file, or "en"; docs/languages.md says what stands in it',
            subject="language",
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise DataLoss(
            f"{name} does not describe a language",
            fix="give code, clitics, accents and carriers as docs/languages.md says",
            subject="language",
        ) from error
