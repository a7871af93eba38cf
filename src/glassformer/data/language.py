"""Which language a text is written in, by its script and its commonest words: enough to sort a corpus, no more."""

import re
from collections import Counter
from functools import cache

WORDS = {  # the function words of a language that others hardly have
    "en": "the of and to is was that it for with are this be not you have from they his her we were which their has",
    "de": "der die und das ist nicht ein eine zu den mit sich des auf für dem auch es im sie ich wird bei einen haben",
    "fr": "le la les et des est une du que dans qui pour pas sur avec ce il elle sont au je nous vous mais été c'est",
    "es": "el los las que una por con para del como más pero sus este esta ser son muy también fue está yo hay lo se",
    "it": "il che di non per una sono del con gli della dei più anche alla come questo ma nel è lo ha si io ho",
    "pt": "que não uma os um para com as dos por mais na em do da no se são ele ela foi você está muito eu ao",
    "nl": "de het een van en in is dat op te zijn niet voor met die er aan ook als bij maar om dan wat hij ze ik",
}
SCRIPTS = {  # letters by script, and the language that a text of them is taken for
    "ja": r"[\u3040-\u30ff]",
    "zh": r"[\u4e00-\u9fff\u3400-\u4dbf]",
    "ko": r"[\uac00-\ud7af]",
    "ru": r"[\u0400-\u04ff]",
    "ar": r"[\u0600-\u06ff]",
    "el": r"[\u0370-\u03ff]",
    "he": r"[\u0590-\u05ff]",
    "hi": r"[\u0900-\u097f]",
    "th": r"[\u0e00-\u0e7f]",
}
LANGUAGES = (*WORDS, *SCRIPTS)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+(?:'[^\W_]+)?")
SAMPLE = 4000  # characters that are looked at


def words_of(text: str) -> list[str]:
    """Its words in lower case, without punctuation; of Chinese and Japanese, which have no blanks, its characters."""
    return _WORD.findall(text.lower())


def language_of(text: str) -> str | None:
    """The code of one of LANGUAGES; None where nothing tells."""
    text = text[:SAMPLE]
    letters = sum(map(str.isalpha, text))
    for code, script in _scripts().items():
        share = len(script.findall(text)) / max(1, letters)
        if share > (0.1 if code == "ja" else 0.3):  # Japanese is Chinese characters with kana between
            return code
    words = Counter(words_of(text))
    votes = {code: sum(words[word] for word in known) for code, known in _words().items()}
    best = max(votes, key=votes.__getitem__)
    ties = sum(value == votes[best] for value in votes.values())
    return best if votes[best] and ties == 1 else None


@cache
def _scripts() -> dict[str, re.Pattern[str]]:
    return {code: re.compile(letters) for code, letters in SCRIPTS.items()}


@cache
def _words() -> dict[str, set[str]]:
    return {code: set(words.split()) for code, words in WORDS.items()}
