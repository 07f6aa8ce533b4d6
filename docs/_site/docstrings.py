"""Docstrings as reStructuredText.

The docstrings of this project are plain text: paragraphs, lists with `-`, code in backticks, examples that begin with
`>>>` or are indented. Everything else is text, so it is escaped, and no docstring can break the build.
"""

import re
from collections.abc import Iterator, Sequence

_CODE = re.compile(r"`+([^`]+)`+")
_MARKUP = re.compile(r"([\\*_|`]|(?<=^\d)\.)")  # a line that begins with `1.` is text, too


def as_rst(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring (its indentation removed) as reStructuredText."""
    written: list[str] = []
    for paragraph in _paragraphs(lines):
        if paragraph[0].startswith(">>>"):
            written += paragraph
        elif _is_code(paragraph[0]):
            written += ["::", "", *(f"    {line}" if line else "" for line in paragraph)]
        else:
            written += _prose(paragraph)
        written.append("")
    return written


def _paragraphs(lines: Sequence[str]) -> Iterator[list[str]]:
    """What blank lines part, or where code begins or ends; code goes on over blank lines."""
    paragraph: list[str] = []
    for line in lines:
        if not line.strip():
            if paragraph and _is_code(paragraph[0]):
                paragraph.append("")
            elif paragraph:
                yield paragraph
                paragraph = []
            continue
        if paragraph and _is_code(line) != _is_code(paragraph[0]):
            yield _trimmed(paragraph)
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield _trimmed(paragraph)


def _trimmed(paragraph: list[str]) -> list[str]:
    while not paragraph[-1]:
        paragraph.pop()
    return paragraph


def _is_code(line: str) -> bool:
    return line.startswith("    ")


def _is_item(line: str) -> bool:
    return line.startswith(("- ", "* "))


def _prose(paragraph: Sequence[str]) -> Iterator[str]:
    """Lines of text, and a list where items begin; the lines of an item are indented alike."""
    inside = False
    for line in paragraph:
        if _is_item(line):
            if not inside:
                yield ""
            inside = True
            yield f"- {_text(line[2:].strip())}"
        else:
            yield f"  {_text(line.strip())}" if inside else _text(line.strip())


def _text(line: str) -> str:
    """Code in backticks as a literal, all other marks escaped."""
    parts = _CODE.split(line)
    return "".join(f"``{part}``" if number % 2 else _MARKUP.sub(r"\\\1", part) for number, part in enumerate(parts))
