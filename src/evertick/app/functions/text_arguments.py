"""Arguments that are typed as words: each is JSON where that fits the function's signature, else text."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from evertick.app.functions.function import Function
from evertick.base.errors import InvalidArguments
from evertick.base.escaping import begins_as_json, object_of

_OPENED: Final[Mapping[str, Any]] = {"{": {}, "[": [], '"': {}}
"""How values of JSON begin that are written wrongly in a hurry; and a value that no parameter for text alone takes."""


def encode_words(function: Function[..., Any], words: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """Like `Function.encode_args`, for arguments that were typed as text. Each is read as JSON if the result fits the
    signature, otherwise as text.

    A word that begins like JSON but is invalid JSON is text only for a parameter that takes nothing but text; for
    others it is an error. `given` are further arguments, used unchanged. Raises InvalidArguments.
    """
    read = {name: _read_word(word) for name, word in words.items()}
    # Text for what may be text; a list or an object stays one, so that an error in it is about its items.
    lists = {name: value for name, value in read.items() if isinstance(value, list | dict)}
    args = {**given, **read}
    try:
        text = function.encode_args((), args)
    except InvalidArguments:
        args = {**given, **words, **lists}
        try:
            text = function.encode_args((), args)
        except InvalidArguments as error:
            with contextlib.suppress(InvalidArguments):
                return function.encode_args((), {**given, **words})
            raise InvalidArguments("; ".join([str(error), *_not_json(words)])) from None
    broken = [name for name, word in words.items() if args[name] == word and _takes_json(function, name, word, args)]
    if broken:
        raise InvalidArguments("; ".join(_not_json({name: words[name] for name in broken})))
    return text


def _read_word(word: str) -> Any:
    try:
        value = _loads(word)
    except (ValueError, RecursionError):
        return word
    # 1.10 as a float would be 1.1: let the signature say whether it is a Decimal.
    return word if isinstance(value, float) and repr(value) != word else value


def _loads(word: str) -> Any:
    """As `json.loads`, and so with NaN, which a function may take; but without names that are there twice."""
    return json.loads(word, object_pairs_hook=object_of)


def _takes_json(function: Function[..., Any], name: str, word: str, args: Mapping[str, Any]) -> bool:
    """Whether a word that begins as JSON, and is taken as text, is for a parameter that takes more than text."""
    if not any(_not_json({name: word})):
        return False
    try:
        function.encode_args((), {**args, name: _OPENED[word.lstrip()[0]]})
    except InvalidArguments:
        return False
    return True


def _not_json(words: Mapping[str, str]) -> Iterator[str]:
    """Why texts that begin like a list, an object or a text of JSON are none."""
    for name, word in words.items():
        if begins_as_json(word):
            try:
                _loads(word)
            except ValueError as error:
                yield f"{name} is not JSON: {error}"
            except RecursionError:
                yield f"{name} is nested too deeply"
