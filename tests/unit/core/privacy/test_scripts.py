"""The policy `personal` in other scripts and languages, and for words in no public list."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.hiding import KINDS, Hiding
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer

PERSONAL = Setting(policy="personal")
KEY = Key(b"scripts".ljust(32))


def released(privatizer: Privatizer, text: str, hiding: Hiding | None = None) -> str:
    return privatizer.release(text, PERSONAL, key=KEY, hiding=hiding).text


@pytest.mark.parametrize(
    "text",
    [
        "请帮我写一封给房东的信，说明暖气坏了。",
        "老板马上就来。我的经理高兴。",
        "東京の天気はどうですか。",
        "날씨가 정말 좋습니다. 편지를 써 주세요.",
        "Подскажите, пожалуйста, как написать письмо арендодателю?",
        "ما هي عاصمة فرنسا؟ اكتب لي رسالة قصيرة",
        "איך כותבים מכתב תלונה לבעל הבית?",
        "What does 你好 mean, and is 안녕하세요 polite?",
        "What does привет mean?",
        "The angle α is 30° and Δx = 5 μm.",
        "Übersetze bitte diesen Text ins Englische und fasse ihn kurz zusammen.",
        "Schreib eine Kündigung und erkläre mir die Steuererklärung.",
        "Guten Morgen, wie geht es dir heute?",
        "Comment écrire une lettre, et que dois-je demander avant ?",
        "Explícame la diferencia entre ser y estar con ejemplos.",
        "Scrivi una ricetta per la pasta alla carbonara senza panna.",
        "Hoe zeg ik mijn huur op?",
        "Viele Grüße von meine Mutter",
        "Worauf muss ich beim Kaufvertrag und bei der Probefahrt achten?",
        "Mein Auto ist in der Werkstatt und ich kann nicht am Sportunterricht teilnehmen.",
        "Wie heißt die Grunderwerbsteuer in Österreich?",
        "¿Qué contrato hay en España y para qué sirve?",
        "Dame una receta de tortilla con patatas para la cena.",
        "Was sagt der Bebauungsplan, und wie hoch ist die Pendlerpauschale? Der Fachkräftemangel.",
        "Meine Laugenpumpe brummt. Wacholderbeeren und Lorbeerblätter für den Sauerbraten.",
        "Schrijf een klacht over de vertraging van de trein.",
        "Schreib mir einen Trainingsplan mit Kniebeugen, Kreuzheben und Bankdrücken.",
        "¿Cuánto cuesta el metro? Combien de temps au four ?",
    ],
)
def test_a_question_in_another_language_leaves_as_typed(privatizer: Privatizer, text: str) -> None:
    assert released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private", "stays"),
    [
        ("我叫王建华，住在上海，请帮我写一封信。", "王建华", "请帮我写一封信"),
        ("张伟先生昨天打电话给我，他很生气。", "张伟", "先生昨天打电话给我"),
        ("请给我的房东王小明写信。我的同事李娜不退押金。", "李娜", "不退押金"),
        ("我的房东王小明，他不退押金。", "王小明", "，他不退押金"),
        ("Write to ｑｕｏｒｌ＠ｌａｍｐ．ｅｘａｍｐｌｅ today.", "ｑｕｏｒｌ", "today"),
        ("Write to ｑｕｏｒｌ＠ｌａｍｐ．ｅｘａｍｐｌｅ today.", "ｌａｍｐ", "today"),
        ("昨天我和李秀英一起去医院看病。", "李秀英", "一起去医院看病"),
        ("姓名：李娜\n电话：", "李娜", "姓名："),
        ("Please write to 王小明 about the invoice.", "王小明", "about the invoice."),
        ("Please write to 田中 about the invoice.", "田中", "about the invoice."),
        ("東京の天気はどうですか。田中さんに聞いてください。", "田中", "さんに聞いてください。"),
        ("김민수 씨에게 편지를 써 주세요.", "김민수", "편지를 써 주세요."),
        ("Сергей Иванович просит отпуск на две недели.", "Иванович", "просит отпуск на две"),
        ("Меня зовут Збыня Хрущ, помогите написать письмо.", "Хрущ", "помогите написать письмо."),
        ("Call محمد العتيبي tomorrow.", "العتيبي", "tomorrow."),
        ("Ask ジョン・スミス too.", "スミス", "too."),
    ],
)
def test_a_name_in_another_script_is_drawn(
    privatizer: Privatizer, text: str, private: str, stays: str
) -> None:
    left = released(privatizer, text)
    assert private not in left
    assert stays in left


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Guten Morgen, ich heiße Jürgen Vogt und wohne in Bremen.", "Jürgen Vogt Bremen"),
        ("ich heiße lukas und suche eine wohnung in hamburg", "lukas hamburg"),
        ("Bonjour, je m'appelle Chloé Lefèvre et j'habite Lyon.", "Chloé Lefèvre Lyon"),
        ("hola soy maria del carmen", "maria carmen"),
        ("Ella called. Mia called. Ed called.", "Ella Mia Ed"),
        ("Mia arbeitet nicht mit Ella und Ed.", "Mia Ella Ed"),
        ("Meine Frau Sabine und mein Chef Herr Morgen sind hier.", "Sabine Morgen"),
        ("Mi chiamo Giulia Rossi e abito a Bologna.", "Giulia Rossi Bologna"),
        ("Nazywam się Agnieszka Kowalska, mieszkam w Krakowie.", "Agnieszka Kowalska Krakowie"),
        ("Mi hermana Lucía y mi vecino Paco no se hablan.", "Paco"),
        ("Mein Sohn Felix und mein Bruder Jonas wohnen hier.", "Jonas"),
        ("Mon mari Luc et ma fille Zoé arrivent demain.", "Luc"),
        ("Escribe una carta a mi vecino, saludos Lucía", "Lucía"),
        ("Das hat Herr Kaltenplan gesagt, und Ella Rosenliste auch.", "Kaltenplan Rosenliste"),
    ],
)
def test_a_name_in_another_language_is_drawn(privatizer: Privatizer, text: str, name: str) -> None:
    assert not {*name.split()} & {*re.findall(r"\w+", released(privatizer, text))}


class Constant:
    """A finder that gives every word one probability: a language that it cannot read."""

    reach = 1

    def __init__(self, place: float) -> None:
        self._place = place

    def find(self, words: Sequence[str], session: str = "") -> NDArray[np.float32]:
        return np.tile(np.float32((0, self._place, 0)), (len(words), 1))


def read_by(bundle: Bundle, place: float) -> Privatizer:
    limits = PrivacyLimits(least_policy="personal")
    return Privatizer.of(bundle, floors=limits, reader=lambda: Constant(place))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Napisz mail do mojej nauczycielki pani Wójtowicz, że jest chory.", "Wójtowicz"),
        ("Napisz to dla mojej babci Genowefy i mojej córki Jagody.", "Genowefy Jagody"),
        ("Merhaba, annem Gülsüm için bir mesaj.", "Gülsüm"),
    ],
)
def test_only_names_have_a_capital_in_most_languages(bundle: Bundle, text: str, name: str) -> None:
    assert not {*name.split()} & {*re.findall(r"\w+", released(read_by(bundle, 0), text))}


def test_a_capital_after_an_article_may_be_a_thing(bundle: Bundle) -> None:
    text = "Este é o livro da Blíbria que quero para minha mãe."
    assert released(read_by(bundle, 0), text) == text


def test_a_german_noun_passes_after_an_article_whatever_the_finder_says(bundle: Bundle) -> None:
    text = "muss ich beim Kaufvertrag und der Probefahrt auf Herrn von der Werkstatt"
    left = released(read_by(bundle, 0.95), text)
    assert {"Kaufvertrag", "Probefahrt"} <= {*left.split()}
    assert "Werkstatt" not in left


@pytest.mark.parametrize("surname", ["Baumgarten", "Hartung", "Weingarten", "Severin"])
def test_a_surname_with_the_ending_of_a_noun_does_not_pass(bundle: Bundle, surname: str) -> None:
    text = f"Der {surname} ruft morgen an, und ich habe der {surname} geschrieben."
    assert surname not in released(read_by(bundle, 0.3), text)


@pytest.mark.parametrize(
    ("text", "relation"),
    [("Mein Sohn Felix wohnt hier.", "Mein Sohn "), ("Mon mari Luc est malade.", "Mon mari ")],
)
def test_a_relation_passes_before_the_name(
    privatizer: Privatizer, text: str, relation: str
) -> None:
    assert privatizer.release(text, PERSONAL, key=KEY).text.startswith(relation)


def test_an_ideograph_of_a_name_becomes_an_ideograph(privatizer: Privatizer) -> None:
    left = released(privatizer, "我叫王建华，请帮我写一封信。")
    assert left.startswith("我叫")
    assert not any(character.isascii() for character in left)


UNSURE = "The team asked for the frobnicator again."
"""A text with a word of which the finder is not quite sure."""


def test_a_small_word_in_no_list_passes_unless_the_owner_hides_all(
    privatizer: Privatizer,
) -> None:
    assert released(privatizer, UNSURE) == UNSURE
    assert "frobnicator" not in released(privatizer, UNSURE, Hiding.of([("unlisted", True)]))


def test_a_small_word_may_be_a_name_where_the_writer_uses_no_capitals(
    privatizer: Privatizer,
) -> None:
    assert "frobnicator" not in released(privatizer, UNSURE.lower())


def test_lines_of_a_list_do_not_make_a_writer_careless(privatizer: Privatizer) -> None:
    text = "Yesterday the team said that the frobnicator was old\nparts\ntools\ntime"
    assert released(privatizer, text) == text


def test_a_word_with_a_capital_passes_only_if_the_finder_is_sure(privatizer: Privatizer) -> None:
    text = "Use a Frobishly to sort the list of numbers."
    assert released(privatizer, text) == text
    assert "Zwelk" not in released(privatizer, "I will ask Zwelk about the numbers.")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("We spoke with Xorvane Tildebrook at noon.", "Xorvane"),
        ("Zwelkirch said no.", "Zwelkirch"),
        ("i met kowalczyk yesterday and he was fine", "kowalczyk"),
        ("It does not take brittaney to see what that meant.", "brittaney"),
        ("It does not take nickolas to see what that meant.", "nickolas"),
    ],
)
def test_a_word_in_no_list_that_may_be_a_name_is_drawn(
    privatizer: Privatizer, text: str, name: str
) -> None:
    assert name not in released(privatizer, text)


def test_an_article_before_a_name_passes(privatizer: Privatizer) -> None:
    assert released(privatizer, "A Splonk gives the number of rows.").startswith("A ")


def test_words_that_may_be_names_pass_only_where_no_names_are_hidden(bundle: Bundle) -> None:
    text = "Please write to 王小明 about the invoice."
    limits = PrivacyLimits(least_policy="personal")
    none = Hiding.of((kind, kind == "contacts") for kind in KINDS)
    own = Privatizer.of(bundle, floors=limits, hiding=none)
    assert own.release(text, PERSONAL, key=KEY).text == text
