"""Tokens of BERT's uncased models: words and signs in lower case without accents, cut into the longest known pieces."""

import json
import unicodedata


def vocabulary(path):
    """Numbers by piece, from a tokenizer.json."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)["model"]["vocab"]


LONGEST_WORD = 100  # longer ones are unknown
DROPPED = ("Mn", "Cf", "Cc", "Co")  # accents and what is not seen


def stands_alone(character):
    """Signs, ASCII ones whatever Unicode calls them, and ideographs."""
    category = unicodedata.category(character)
    ideograph = category == "Lo" and unicodedata.name(character, "").startswith("CJK ")
    return category.startswith("P") or character in "$+<=>^`|~" or ideograph


def words(text):
    """Words, and what stands alone."""
    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(c for c in text if c in "\t\n\r" or unicodedata.category(c) not in DROPPED)
    return "".join(f" {c} " if stands_alone(c) else c for c in text).split()


def encode(text, vocabulary):
    """Numbers of the pieces of `text`; a word that cannot be cut becomes [UNK]."""
    numbers = []
    for word in words(text):
        pieces, start = [], 0
        while start < len(word):
            lead = "##" if start > 0 else ""
            end = next((e for e in range(len(word), start, -1) if lead + word[start:e] in vocabulary), None)
            if end is None or len(word) > LONGEST_WORD:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[lead + word[start:end]])
            start = end
        numbers += pieces
    return numbers
