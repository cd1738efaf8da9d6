# SPDX-License-Identifier: Apache-2.0
"""Texts that look random: secrets whose names do not tell that they are secrets.

Names, paths and sentences are made of words; keys and tokens are not. A run of characters counts
as random if its characters vary (Shannon entropy) and its classes alternate (upper case, lower
case, digits), or if it is a long hexadecimal number. UUIDs and digests that are marked as such
stay, because they identify objects and images.

The replacement contains a short hash of the text, so that a reader can still see where the same
text occurs; six hexadecimal digits reveal nothing about a text that cannot be guessed.
"""

import hashlib
import itertools
import math
import re
from collections import Counter

MIN_LENGTH = 20
_MIN_BITS = 3.5
_MIN_CHANGES = 0.34

_CANDIDATE = re.compile(
    r"(?P<kept>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|sha(?:256|384|512):[0-9a-f]+)"
    rf"|(?<![A-Za-z0-9+_/-])(?P<run>[A-Za-z0-9+_/-]{{{MIN_LENGTH},}}=*)"
)
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")


def redacted(text: str, replacement: str) -> str:
    """Return a text in which random runs are replaced."""
    if len(text) < MIN_LENGTH:
        return text

    def replace(match: re.Match[str]) -> str:
        run = match["run"]
        if run is None or not is_random(run):
            return match[0]
        digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        return f"{replacement}({digest})"

    return _CANDIDATE.sub(replace, text)


def is_random(text: str) -> bool:
    """Return whether a run of letters, digits and signs looks like a key rather than a name."""
    if text.startswith("/"):  # a path
        return any(is_random(part) for part in text.split("/") if len(part) >= MIN_LENGTH)
    if _HEX.search(text):
        return True
    is_lower = text == text.lower()
    if is_lower and ("-" in text or "_" in text):  # a name in Kubernetes
        return False
    classes = [_class(character) for character in text if character.isalnum()]
    if len(classes) < MIN_LENGTH - 4 or "digit" not in classes:
        return False
    changes = sum(a != b for a, b in itertools.pairwise(classes))
    return changes / len(classes) >= _MIN_CHANGES and _bits(text) >= _MIN_BITS


def _class(character: str) -> str:
    if character.isdigit():
        return "digit"
    return "upper" if character.isupper() else "lower"


def _bits(text: str) -> float:
    """Return the entropy per character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
