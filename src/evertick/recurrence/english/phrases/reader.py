"""The reader of sentences: the words, the current position, and the furthest position reached.

Every phrase reader either consumes its words and returns their value, or returns None and does not move the position;
`attempt` restores the position. The work is bounded: a sentence has at most `TEXT_MAX` characters, no phrase is
recursive, and an abandoned position is not tried again.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Concatenate, Final, NoReturn, ParamSpec, TypeVar

from evertick.base.errors import InvalidSpec
from evertick.recurrence.english.phrases.grammar import read_ordinal
from evertick.recurrence.spec.sources import shown

TEXT_MAX: Final = 4_096
"""The length limit of a sentence. `describe` can write a longer one, for a spec with hundreds of parts."""

_TOKEN: Final = re.compile(r"[,;()]|[^\s,;()]+")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_COUNTED: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
}  # fmt: skip
_SHOWN_MAX: Final = 80

T = TypeVar("T")
P = ParamSpec("P")

Part = tuple[str, tuple[str, ...], "Callable[[Reader], object]"]
"""The attribute that a part of a sentence sets, the phrases that it begins with, and the reader of the rest."""


def attempt(
    read: "Callable[Concatenate[Reader, P], T | None]",
) -> "Callable[Concatenate[Reader, P], T | None]":
    """Decorator: the phrase reader consumes no word if it returns None."""

    @wraps(read)
    def attempted(reader: "Reader", /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        place = reader.at
        found = read(reader, *args, **kwargs)
        if found is None:
            reader.at = place
        return found

    return attempted


class Reader:
    """The words of a sentence and the current position."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidSpec(f"a sentence must be text, not {type(text).__name__}")
        if len(text) > TEXT_MAX:
            raise InvalidSpec(f"the sentence has {len(text)} characters; at most {TEXT_MAX} are read")
        self.text = text.rstrip(" \t\r\n.")
        self._spans = [found.span() for found in _TOKEN.finditer(self.text)]
        self._written = [self.text[a:b] for a, b in self._spans]
        self._words = [word.lower() for word in self._written]
        self.at = 0
        """The current position: the number of words read so far."""
        self._furthest = 0
        self._wanted: dict[str, None] = {}

    @property
    def word(self) -> str:
        """The next word in lower case; empty at the end."""
        return self._words[self.at] if self.at < len(self._words) else ""

    @property
    def written(self) -> str:
        """The next word as it was written; empty at the end."""
        return self._written[self.at] if self.at < len(self._written) else ""

    def peek(self, distance: int = 1) -> str:
        """The word at `distance` after the next one, in lower case; empty beyond the end."""
        at = self.at + distance
        return self._words[at] if at < len(self._words) else ""

    @property
    def left(self) -> int:
        """The number of remaining words."""
        return len(self._words) - self.at

    def words(self, count: int) -> list[str]:
        """The next words, in lower case; does not move."""
        return self._words[self.at : self.at + count]

    def advance(self, words: int = 1) -> None:
        """Consume words, at most up to the end."""
        self.at = min(self.at + words, len(self._words))
        if self.at > self._furthest:
            self._furthest = self.at
            self._wanted = {}

    def take(self, *phrases: str) -> bool:
        """Consume the first of these phrases that comes next; return whether there was one."""
        for phrase in phrases:
            words = phrase.split(" ")
            if self._words[self.at : self.at + len(words)] == words:
                self.advance(len(words))
                return True
        if self.at == self._furthest:
            self._wanted.update(dict.fromkeys(phrases))
        return False

    def comes(self, *phrases: str) -> bool:
        """Whether one of these phrases comes next; does not move."""
        return any(self._words[self.at : self.at + len(w)] == w for w in (p.split(" ") for p in phrases))

    def number(self) -> int | None:
        """Read a whole number, in digits or as a word up to twelve; None if there is none."""
        word = self.word
        value = int(word) if _NUMBER.fullmatch(word) else _COUNTED.get(word)
        if value is not None:
            self.advance()
        return value

    def ordinal(self) -> int | None:
        """Read an ordinal such as `first`, `3rd`, `last`, `2nd-to-last`; negative from the end."""
        return self.known(read_ordinal)

    def known(self, find: Callable[[str], int | None]) -> int | None:
        """Read the next word with `find`; return its number, or None without consuming the word."""
        number = find(self.word)
        if number is not None:
            self.advance()
        return number

    def listed(self, read: "Callable[[Reader], T | None]") -> list[T]:
        """Read items separated by commas and "and": `a`, `a and b`, `a, b, and c`. Empty if no item comes next."""
        items: list[T] = []
        after = self.at
        while (item := read(self)) is not None:
            items.append(item)
            after = self.at
            if not self.take(", and", ",", "and"):
                break
        self.at = after
        return items

    def runs(self, read: "Callable[[Reader], int | None]", highest: int = 1 << 20, *, wrap: int = 0) -> int:
        """Read a list of numbers and runs, `1, 3 and 5 through 9`, as a mask. 0 if there is none.

        With `wrap` a run may continue after that number at 1: `November through February`.
        """

        def run(reader: "Reader") -> int | None:
            first = read(reader)
            last = read(reader) if first is not None and reader.take("through", "to") else first
            if first is None or last is None or last > highest or (last < first and not wrap):
                return None
            if last < first:
                return (2 << wrap) - (1 << first) | (2 << last) - 2
            return (2 << last) - (1 << first)

        mask = 0
        for one in self.listed(run):
            mask |= one
        return mask

    def one_of(self, table: Mapping[T, str]) -> T | None:
        """Read the phrase of the table that comes next; return its key, or None."""
        return next((key for key, phrase in table.items() if self.take(phrase)), None)

    def part(self, target: object, parts: Iterable[Part]) -> bool:
        """Read the part that comes next and set its attribute, which must be None; return whether it did."""
        place = self.at
        for name, begins, read in parts:
            if getattr(target, name) is None and (not begins or self.take(*begins)):
                value = read(self)
                if value is not None:
                    setattr(target, name, value)
                    return True
                self.at = place
        return False

    def fail(self, message: str) -> NoReturn:
        """Raise InvalidSpec for words that are understood but invalid."""
        raise InvalidSpec(f"the sentence {shown(self.text, _SHOWN_MAX)}: {message}")

    @property
    def last_understood(self) -> str:
        """The word before the first one that was not understood, in lower case; empty at the beginning."""
        return self._words[self._furthest - 1] if self._furthest else ""

    def give_up(self, vocabulary: frozenset[str], forms: tuple[str, ...]) -> NoReturn:
        """Raise InvalidSpec with the words that were not understood, and suggestions."""
        at = max(self.at, self._furthest)
        if not self._words:
            raise InvalidSpec(f"the sentence is empty; write one such as {forms[0]!r}")
        before = self._cut(0, at, last=True)
        after = f" after {shown(before, _SHOWN_MAX)}" if before else ""
        if at >= len(self._words):
            raise InvalidSpec(f"the sentence ends too early{after}; {self._offer(forms)}")
        word = self._words[at][:40]
        near = get_close_matches(word, vocabulary, n=2, cutoff=0.72) if word not in vocabulary else []
        hint = f"did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
        if near or at == 0:
            self._wanted = {}
        raise InvalidSpec(
            f"{shown(self._cut(at, len(self._words)), _SHOWN_MAX)} is not understood{after}; {hint}{self._offer(forms)}"
        )

    def _offer(self, forms: tuple[str, ...]) -> str:
        wanted = [word for word in self._wanted if word[0] not in ",;()"][:4]
        start = self.text[:200].lower()
        near = get_close_matches(start, forms, n=2, cutoff=0.5) or list(forms[:2])
        there = f"expected {', '.join(repr(w) for w in wanted)}; " if wanted else ""
        return f"{there}sentences look like {' or '.join(repr(form) for form in near)}"

    def _cut(self, start: int, end: int, *, last: bool = False) -> str:
        if start >= end:
            return ""
        text = self.text[self._spans[start][0] : self._spans[end - 1][1]]
        if last and len(text) > _SHOWN_MAX:
            return "..." + text[3 - _SHOWN_MAX :]
        return text
