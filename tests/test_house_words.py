"""A rule of the code's language: no words that only this project's authors understand.

Docstrings, comments, texts and names of the package, the templates of the dashboard and the pages of `docs` are checked
for the words in WORDS. A failure says which word to write instead.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "evertick"
ROOMS: Final = (*sorted(each.name for each in PACKAGE.iterdir() if each.suffix == ".py" or each.is_dir()), "docs")

WORDS: Final = (
    (r"made up", "caught up"),
    (r"(set )?aside", "in a separate batch, or: ignored"),
    (r"beside", "in addition to, next to, or: concurrent"),
    (r"look(s|ed|ing)? (at|for)", "poll, query, check or search"),
    (r"(a|an|each|every|its|one|the|first|last|next|this) look", "poll, query or check"),
    (r"heard", "received, or: notified"),
    (r"told", "notified, passed or reported"),
    (r"anew", "again"),
    (r"of ours", "of Evertick"),
    (r"in vain", "without success"),
    (r"so be it", "(nothing)"),
    (r"names no moment", "has no time zone"),
    (r"half of a (character|surrogate)", r"a lone surrogate (\ud83d)"),
    (r"worth a look", "can have a result"),
    (r"nothing is kept", "is not recorded"),
)
NAMES: Final = (*WORDS, (r"look(s|ed)?(?! up)", "poll, query or check"))
"""Of identifiers, whose words are separated by a space: also the single word."""
DOCSTRINGS: Final = (*WORDS, (r"^answers", "Return"))

_HTML_ASIDE: Final = re.compile(r"</?aside\b")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Found(NamedTuple):
    """A word that should be replaced."""

    line: int
    word: str
    instead: str


def words_in(text: str, line: int, words: tuple[tuple[str, str], ...] = WORDS) -> Iterator[Found]:
    """The words of a text that begins in `line`; line breaks and comment signs count as spaces."""
    for pattern, instead in words:
        for found in re.finditer(rf"\b(?:{pattern})\b".replace(" ", r"[\s#]+"), text, re.IGNORECASE):
            yield Found(line + text.count("\n", 0, found.start()), found[0], instead)


def words_in_source(source: str) -> set[Found]:
    """The words in the docstrings, comments, texts and identifiers of a module."""
    found: set[Found] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(words_in(node.value, node.lineno))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.update(words_in(ast.get_docstring(node) or "", getattr(node, "lineno", 1), DOCSTRINGS[-1:]))
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comments and comments[-1][0] + comments[-1][1].count("\n") + 1 == token.start[0]:
                comments[-1] = comments[-1][0], f"{comments[-1][1]}\n{token.string}"
            else:
                comments.append((token.start[0], token.string))
        elif token.type == tokenize.NAME:
            found.update(words_in(_CAMEL.sub(" ", token.string).replace("_", " "), token.start[0], NAMES))
    for line, text in comments:
        found.update(words_in(text, line))
    return found


def files_of(room: str) -> list[Path]:
    if room == "docs":
        return sorted((ROOT / "docs").rglob("*.md"))
    place = PACKAGE / room
    files = [place] if place.is_file() else place.rglob("*")
    return sorted(each for each in files if each.suffix in (".py", ".html", ".sql"))


def found_in(file: Path) -> list[Found]:
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        return sorted(words_in_source(text))
    return sorted(words_in(_HTML_ASIDE.sub("", text), 1))


@pytest.mark.parametrize("room", ROOMS)
def test_a_reader_needs_no_glossary(room: str) -> None:
    """Words with a private meaning are replaced by those that every engineer knows."""
    problems = [
        f'{file.relative_to(ROOT)}:{each.line}: instead of "{each.word}" write: {each.instead}'
        for file in files_of(room)
        for each in found_in(file)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ('"""Rows.\n\nTime that is made up for.\n"""', 3, "made up"),
        ("def lookUp_told_rows() -> None:\n    pass", 1, "told"),
        ("class NextLook:\n    pass", 1, "Look"),
        ("x = 1\n# nothing that it looks\n# for is there", 2, "looks\n# for"),
        ('raise ValueError(f"the body {1} holds half of a character")', 1, "half of a character"),
        ('def f() -> None:\n    """Answers with the row."""', 1, "Answers"),
    ],
)
def test_a_planted_word_is_found_where_it_is(source: str, line: int, word: str) -> None:
    assert (line, word) in {(each.line, each.word) for each in words_in_source(source)}


def test_words_with_a_plain_meaning_are_allowed() -> None:
    source = 'LOOKED_UP = "it looks like a retold story besides"  # overlook the lookup'
    assert not words_in_source(source)
