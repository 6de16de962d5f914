"""Finds names in scripts and languages that the finder of names cannot read, like Chinese.

The finder reads English. In another script a sentence passes, because it holds the question. Signs
tell which of its words are names: a listed name, a title, a label, a patronymic, a capital within a
sentence. A run as short as a name is drawn if it stands within Latin text. In a sentence of another
language that is written in Latin letters, ordinary words pass in the same way, see `passes_abroad`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cache
from importlib import resources
from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed as listed_signs
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark, listed_names
from sottovoce.core.text.words import Kind

_OTHER = re.compile(r"[^\W\d_A-Za-zªºµÀ-ʯḀ-ỿ℀-⅏Ａ-Ｚａ-ｚ]")
"""A letter that is not Latin."""
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々"
_IDEOGRAPH = re.compile(f"[{_HAN}]")
_EAST = re.compile(f"[{_HAN}\u3040-\u30ff\u31f0-\u31ff\uac00-\ud7af]")
"""Letters of Chinese, Japanese and Korean, where a name has few."""
_KATAKANA = re.compile(r"[\u30a0-\u30ff]+")
_MOST_EASTERN: Final = 6
"""Letters of the longest run that may be a Chinese, Japanese or Korean name."""
_MOST_WORDS: Final = 3
_MOST_LETTERS: Final = 24
"""The same of other scripts, in words and letters."""
_SHORTEST: Final = 3
"""Letters of the shortest name in scripts with capitals."""
_AROUND: Final = 200
_LONGEST_GIVEN: Final = 3
_LONGEST_KOREAN: Final = 4
"""Syllables."""

_SURNAMES: Final = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘蒋蔡余杜叶苏魏吕丁沈姚卢姜崔"
    "钟谭陆汪范廖贾韦邹孟熊秦邱尹薛闫侯陶黎贺顾郝龚邵钱覃戴莫張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭葉蘇魏呂盧"
    "鍾譚陸范賈鄒龔錢賴"
)
"""Common Chinese surnames that are hardly ever the beginning of another word."""
_SYLLABLES: Final = (
    "강고곽구권김나남노류문민박배백서성손송신심안양엄오우유윤이임장전정조주지진차최하한허홍황"
)
"""Korean surnames."""
_CHINESE = re.compile(f"(?=([{_SURNAMES}])([{_HAN}]{{2}}))")
_FIRSTS: Final = frozenset(
    _SURNAMES
    + "于金石方江白钱孔常武万段雷龙史毛夏付康严施洪龙温文安易乔柯单成米阮欧阳司上诸东"
    + "佐鈴高田渡伊山中小加吉松井木清斎斉池橋本村前後藤岡長近石福西太三原"
    + "上野青坂遠千菅久工丸今竹内増宮大平河"
    + "川桜新島古市酒柴谷菊浅荒水星堀黒白和森関土服樋口望岩北南東秋片永安杉内早浜矢"
    + "伟芳娜敏静丽强磊军洋勇艳杰娟涛超秀霞刚美健愛陽結翔莉咲"
)
"""First letters of most Chinese and Japanese names."""
_ALONE = re.compile(f"[{_SURNAMES}][{_HAN}]{{1,2}}")
_ROLES: Final = (
    "房东|房客|老板|老師|老师|同事|同学|同學|朋友|邻居|鄰居|经理|客户|医生|醫生|律师|律師|妈妈|媽媽|爸爸|丈夫|妻子|老公|老婆|儿子|兒子"
    "|女儿|女兒|哥哥|姐姐|弟弟|妹妹|男友|女友|病人"
)
"""Whom a name follows: "my landlord"."""
_AFTER: Final = "不是说說在的和也已让讓给給把要没沒很对對向跟"
"""Words that often follow a name."""
_IN_ROLE = re.compile(f"(?:{_ROLES})([{_SURNAMES}][{_HAN}]{{1,2}}?(?:(?![{_HAN}])|(?=[{_AFTER}])))")
_TITLED = re.compile(
    f"([{_SURNAMES}][{_HAN}]{{0,2}}?)(?:先生|女士|小姐|太太|老师|老師|医生|醫生|大夫|教授|博士|经理|律师|律師|老板)"
    f"|([{_HAN}]{{1,4}}?|[\u30a0-\u30ffー・]{{2,12}})(?:さん|様|ちゃん|くん|氏(?!名))"
    "|([\uac00-\ud7af]{2,4}) ?(?:씨|님)(?![\uac00-\ud7af]{2})"
)
_LABELLED = re.compile(
    f"(?:姓名|名字|氏名|名前|患者|我叫|名叫|叫做|我的名字是|名前は|私は(?=[{_HAN}]{{2,5}}です))[:：は]?\\s?"
    f"([{_HAN}]{{2,4}}?|[\u30a0-\u30ffー・]{{2,12}})(?![{_HAN}])"
    f"|(?:我叫|名叫|姓名[:：])\\s?([{_SURNAMES}][{_HAN}]{{1,2}})"
    "|(?:이름은|이름:|제 이름은|저는)\\s?"
    "([\uac00-\ud7af]{2,4}?)(?=입니다|이고|이에요|예요|[\\s.,]|$)"
)
_TITLES: Final = frozenset(
    {
        *("г-н", "г-жа", "господин", "госпожа", "гражданин", "гражданка", "доктор", "зовут"),
        *("пан", "пані", "κύριος", "κυρία", "κ", "κα", "δρ"),
        *("السيد", "السيدة", "الدكتور", "الدكتورة", "الأستاذ", "الأستاذة", "اسمي", "آقای", "خانم"),
        *("מר", "גברת", "שמי", "श्री", "श्रीमती", "डॉ"),
    }
)
"""Words of other scripts after which a name follows."""
_NAMELIKE = re.compile(
    r"[а-яёіїєґ]{2,}(?:ович|евич|ьевич|овна|евна|ична|івна|йович|енко|ский|ская|цкий|цкая|ський|ська)"
    r"(?:а|у|ем|ом|ой|е|ы|ого|ому|им)?|[ά-ώ]{3,}(?:όπουλος|οπούλου|ίδης|ίδου|άκης|άκη)",
)
"""Endings of patronymics and surnames."""


def names_in_scripts(document: str, sight: Sight) -> Iterator[tuple[int, bool]]:
    """Yield the places of words in other scripts than Latin that may be names.

    With each place comes whether a sign says that it is a name; else it is a run as short as one.
    """
    words = sight.words
    if not words or document.isascii():
        return
    others = [word.kind is Kind.WORD and is_foreign(word.text) for word in words]
    if not any(others):
        return
    start, end = words[0].start, words[-1].end
    for place in _matched(document, sight, start, end):
        yield place, True
    for run in _runs(sight, others):
        alone = _ALONE.fullmatch("".join(words[place].text for place in run)) is not None
        sentence = _ordinary(sight, run) or _foreign(document, words[run[0]].start)
        for place in run:
            if others[place] and not _letter(words[place].text):
                if words[place].text.islower() and not _listed(sight.lower[place]):
                    continue
                named = alone or _named(sight, place, begins=place == run[0])
                if named or not sentence:
                    yield place, named


def is_foreign(text: str) -> bool:
    """Return whether a word begins with a letter of another script than Latin."""
    return _OTHER.match(text) is not None


def is_ideograph(text: str) -> bool:
    """Return whether a word is a letter that is a whole word of Chinese or Japanese."""
    return len(text) == 1 and not text.isascii() and _IDEOGRAPH.match(text) is not None


def _matched(document: str, sight: Sight, start: int, end: int) -> Iterator[int]:
    spans = [
        match.span(group)
        for pattern in (_TITLED, _LABELLED, _IN_ROLE)
        for match in pattern.finditer(document, start, end)
        for group in range(1, pattern.groups + 1)
        if match[group]
    ]
    spans += [
        (match.start(), match.end(2))
        for match in _CHINESE.finditer(document, start, end)
        if _listed(match[2])
    ]
    for first, last in spans:
        yield from sight.within(first, last)


def _runs(sight: Sight, others: Sequence[bool]) -> Iterator[list[int]]:
    """Yield runs of words in other scripts, with the marks between them, within a line."""
    run: list[int] = []
    for place, other in enumerate(others):
        if run and sight.breaks(place):
            yield run
            run = []
        mark = sight.words[place].kind is Kind.PUNCTUATION
        if other or (run and mark and sight.words[place].text[0] not in "()（）"):
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _sentence(sight: Sight, run: Sequence[int]) -> bool:
    """Return whether a run is longer than a name."""
    words = [place for place in run if sight.words[place].kind is Kind.WORD]
    letters = "".join(sight.words[place].text for place in words)
    if _EAST.match(letters):
        return len(letters) > _MOST_EASTERN and not _KATAKANA.fullmatch(letters)
    spaced = sum(bool(sight.gaps[place]) for place in words[1:]) + 1
    return spaced > _MOST_WORDS or len(letters) > _MOST_LETTERS


def _ordinary(sight: Sight, run: Sequence[int]) -> bool:
    """Return whether a run is a sentence, or does not begin as names of its script do."""
    if _sentence(sight, run):
        return True
    first = sight.words[run[0]].text
    if _EAST.match(first) and not _KATAKANA.match(first):
        if _IDEOGRAPH.match(first):
            return first not in _FIRSTS or len(run) == 1
        return first[0] not in _SYLLABLES or not 1 < len(first) <= _LONGEST_KOREAN
    return False


def _foreign(document: str, start: int) -> bool:
    """Return whether the text around a place has more letters of other scripts than Latin ones."""
    around = document[max(start - _AROUND, 0) : start + _AROUND]
    others = len(_OTHER.findall(around))
    return others > len(_LATIN.findall(around))


def _letter(text: str) -> bool:
    """Return whether a word is a sign of mathematics: "α", "Δx"."""
    return len(text) < _SHORTEST and not _EAST.match(text) and text.lower() != text.upper()


def _named(sight: Sight, place: int, *, begins: bool) -> bool:
    """Return whether a word of another script is a name, by itself and by the word before it."""
    text, lower = sight.words[place].text, sight.lower[place]
    if _EAST.match(text):
        surname = text[0] in _SYLLABLES and len(text) >= _LONGEST_GIVEN
        return (len(text) > 1 and _listed(text)) or (surname and _listed(text[1:3]))
    if place and sight.lower[place - 1] in _TITLES and not sight.breaks(place):
        return True
    if place > 1 and sight.words[place - 1].text == "." and sight.lower[place - 2] in _TITLES:
        return True
    listed = not sight.marks[place] and lower not in _TITLES and _listed(lower)
    if listed or (text[0].isupper() and _NAMELIKE.fullmatch(lower)):
        return True
    capital = text[0].isupper() and not text.isupper()
    return capital and not begins and sight.words[place - 1].text[0] not in '.!?…:;«"“—–-'


def _listed(name: str) -> bool:
    return f"\n{name}\n" in _names()


@cache
def _names() -> str:
    """Names in other scripts, as text: a set would take ten times the memory."""
    file = resources.files(__package__).joinpath("surrogates", "lists", "names_by_script.tsv")
    return file.read_text("utf-8")


def _no_names(sign: str) -> frozenset[str]:
    """Return listed words without names; "Ella" and "Mia" tell no language."""
    return frozenset(word for word in listed_signs(sign) if not names.known(word))


_FUNCTIONS: Final = _no_names("foreign_functions")
_BEFORE_NOUNS: Final = _no_names("foreign_functions_before_nouns")
"""Function words of German, which writes nouns with a capital."""
_ENGLISH: Final = listed_signs("in_sentences") | {
    *("i", "it", "my", "of", "that", "the", "this", "to", "we", "with", "you"),
}
_SMALL: Final = listed_signs("foreign_functions") | listed_signs("foreign_functions_before_nouns")
"""Function words that pass in small letters, names among them: "una", "alla"."""
_GREETINGS: Final = listed_signs("foreign_greetings")
_NAMINGS: Final = listed_signs("foreign_namings")
_REFLEXIVE: Final = ("się",)
_ARTICLES: Final = listed_signs("foreign_articles")
_ENDINGS: Final = tuple(listed_signs("foreign_endings"))
_LONG_ENDINGS: Final = tuple(ending for ending in _ENDINGS if len(ending) >= 6)
"""Endings of nouns, whatever the finder says; surnames have shorter ones."""
_SURE: Final = 0.9
_LIKELY: Final = 0.5
_UNSURE: Final = 0.1
_PARTS = re.compile(r"[^\W\d_]+")


class Language(IntEnum):
    """The language of a sentence, as far as known."""

    ENGLISH = 0
    """Or not known."""
    OTHER = 1
    """Another one in Latin letters."""
    NOUNS = 2
    """Another one, whose nouns have a capital."""


def languages(sight: Sight) -> list[Language]:
    """Return the language of each word's sentence.

    A sentence of another language has more of its function words than of English ones. A sentence
    without any is German if the sentence before it on its line is.
    """
    found: list[Language] = []
    before_nouns = others = english = 0
    language = Language.ENGLISH
    for place, word in enumerate((*sight.words, None)):
        if word is None or sight.breaks(place) or word.text[0] in ".!?":
            if before_nouns + others > english:
                language = Language.NOUNS if before_nouns > others else Language.OTHER
            elif english or language is Language.OTHER:
                language = Language.ENGLISH
            found += [language] * (place - len(found))
            before_nouns = others = english = 0
            if word is not None and sight.breaks(place):
                language = Language.ENGLISH
        if word is not None and not word.text.isupper():
            before_nouns += sight.lower[place] in _BEFORE_NOUNS
            others += sight.lower[place] in _FUNCTIONS
            english += sight.lower[place] in _ENGLISH
    return found


def passes_abroad(sight: Sight, place: int, named: float, language: Language) -> bool:
    """Return whether a word of a foreign sentence is ordinary, by its form and by lists.

    Args:
        named: the probability of a name, which the finder often gives to foreign words.
        language: of the sentence; not English.
    """
    text, lower, marks = sight.words[place].text, sight.lower[place], sight.marks[place]
    if place and sight.lower[place - 1] in _NAMINGS:
        return False
    if lower in _FUNCTIONS or lower in _BEFORE_NOUNS or text in _SMALL:
        return True
    word = marks & Mark.WORD and not marks & Mark.NAME
    if not word and any(names.known(part) for part in _PARTS.findall(lower)):
        return False
    if text.islower():
        return bool(word) or named < _UNSURE
    begins = not place or sight.breaks(place) or sight.words[place - 1].text[0] in ".!?:\"'“¿¡"
    # Baumgarten and Hartung are surnames, and of people one may say "der Hartung".
    if language is Language.NOUNS and (word or _is_usual(text)):
        article = place > 0 and sight.lower[place - 1] in _ARTICLES
        surname = place > 1 and sight.lower[place - 2] in ("van", "von", "zu")
        compound = _is_usual(text, _LONG_ENDINGS)
        return named < _SURE or ((article or compound) and not surname)
    return begins and named < (_LIKELY if word else _UNSURE)


def _is_usual(noun: str, endings: tuple[str, ...] = _ENDINGS) -> bool:
    return noun.lower().endswith(endings) and not listed_names(noun)


def is_capital_abroad(sight: Sight, place: int) -> bool:
    """Return whether a word has a capital that only names have in its language, not German.

    A thing may also have one after an article: "da Bíblia".
    """
    before = sight.words[place - 1] if place and not sight.breaks(place) else None
    return (
        before is not None
        and before.kind is Kind.WORD
        and sight.lower[place - 1] not in _DEFINITE
        and sight.words[place].text.istitle()
    )


_DEFINITE: Final = frozenset(
    {
        *("a", "al", "au", "da", "das", "del", "della", "do", "dos", "du", "el", "het", "il"),
        *("la", "las", "le", "les", "lo", "los", "na", "nas", "no", "nos", "o", "os"),
    }
)


def names_abroad(sight: Sight) -> Iterator[int]:
    """Yield names after "ich heiße" or the like, and capitals after "Gruß"."""
    for place in range(1, len(sight.words)):
        greets = sight.lower[place - 1] in _GREETINGS
        if not greets and sight.lower[place - 1] not in _NAMINGS:
            continue
        at = place + (sight.lower[place] in _REFLEXIVE)
        for step in range(_MOST_WORDS):
            if at + step >= len(sight.words) or sight.breaks(at + step):
                break
            text = sight.words[at + step].text
            if not text.isalpha() or ((step or greets) and not text[0].isupper()):
                break
            if sight.lower[at + step] in _FUNCTIONS:
                break
            yield at + step
