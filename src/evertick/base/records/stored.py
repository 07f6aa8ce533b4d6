"""Stored values: a column's JSON text, with its decoded value.

Rows are read far more often than their single columns. So a column is decoded when its value is first read, and encoded
when its text is first needed. A row that is only passed on keeps its text byte for byte, and a row that this release
cannot read can still be listed, postponed and deleted.

Texts contain the version of their format as `"v"`; a text without one is version 1.

Also here: `Same`, a cache key by object identity, and `storable`, which makes text storable in every database.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, Generic, TypeVar

from evertick.base.errors import InvalidArguments, SchemaMismatch

T = TypeVar("T")

VERSION: Final = 1
_SURROGATES: Final = re.compile(r"\\\\|\\ud[89ab]\w\w\\ud[c-f]\w\w|\\(ud[89a-f]\w\w)")
"""Matches a backslash, a pair of surrogates and, in the group, a lone surrogate of JSON text."""
DEPTH_MAX: Final = 200
"""The nesting limit of lists and objects, as for arguments. The encoder of replies fails at about 250."""


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Converts values of one type to text, and back."""

    encode: Callable[[T], str]
    decode: Callable[[str], T]

    def text(self, text: str) -> "Stored[T]":
        """The stored value of a column's text."""
        return Stored(self, text, None)

    def value(self, value: T) -> "Stored[T]":
        """The stored value of a new value."""
        return Stored(self, None, value)

    def optional(self, text: str | None) -> "Stored[T] | None":
        """The stored value of a column's text, or None if it is None."""
        return None if text is None else Stored(self, text, None)


class ByText:
    """Compares by `text`: two objects are equal if their texts are equal."""

    __slots__ = ()
    text: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text})"


class Stored(ByText, Generic[T]):
    """A value and its text."""

    __slots__ = ("_codec", "_text", "_value")

    def __init__(self, codec: Codec[T], text: str | None, value: T | None) -> None:
        self._codec = codec
        self._text = text
        self._value = value

    @property
    def text(self) -> str:
        """The value as JSON text."""
        if self._text is None:
            assert self._value is not None  # noqa: S101
            self._text = self._codec.encode(self._value)
        return self._text

    @property
    def is_known(self) -> bool:
        """Whether the value is already decoded."""
        return self._value is not None

    @property
    def value(self) -> T:
        """The value of the text. Raises SchemaMismatch if a newer release wrote it, or if it is damaged."""
        if self._value is None:
            text = self.text
            try:
                self._value = self._codec.decode(text)
            except SchemaMismatch as error:
                error.of_one_row = True
                raise
            except Exception as error:  # a text of unknown format can raise anything
                damaged = SchemaMismatch(
                    f"a stored value is damaged, or was written by a newer release ({type(error).__name__}: {error}); "
                    f"update this one: {text:.100}"
                )
                damaged.of_one_row = True
                raise damaged from error
        return self._value


def text_of(stored: Stored[Any] | None) -> str | None:
    """The text for a column; None for None."""
    return None if stored is None else stored.text


def read_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object of a column; `what` names it in the error.

    Raises SchemaMismatch if its version is newer than this code reads.
    """
    values: dict[str, Any] = json.loads(text)
    version = values.get("v", VERSION)
    if version > VERSION:
        raise SchemaMismatch(f"{what} was written in version {version}; this code reads up to {VERSION}: update it")
    return values


def require_types(values: Iterable[object], types: type | UnionType) -> None:
    """Raise TypeError unless all are of these types: damaged values must not reach statements."""
    for value in values:
        if not isinstance(value, types):
            raise TypeError(f"{value!r} is of another type")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[T]):
    """A key that only the same object matches. A cache that holds the key keeps the object alive."""

    value: T

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


def json_of(value: Any, what: str) -> str:
    """The JSON text of a user's value; `what` names it in the error.

    Raises InvalidArguments for values without a JSON form (NaN, sets, tuples, keys that are not text), and for values
    nested more than `DEPTH_MAX` levels deep.
    """
    text = _dumped(value, what)
    if (changed := difference(value, json.loads(text))) is not None:
        raise InvalidArguments(f"{what} cannot be stored as JSON: {changed}")
    return text


def _dumped(value: Any, what: str) -> str:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{what} cannot be stored as JSON: {error}") from error
    check_depth(text, value, what)
    return text


def difference(value: Any, back: Any, place: str = "") -> str | None:
    """The first part of `value` that JSON changed to something else in `back`; None if there is none.

    Values that compare equal count as unchanged, for example a member of a StrEnum and its text. So do objects of one
    class, which may compare by identity.
    """
    if value == back:
        return None
    inner: list[tuple[Any, Any, Any]]
    if isinstance(value, dict) and isinstance(back, dict):
        if value.keys() != back.keys():
            odd = next((key for key in value if key not in back), None)
            return f"the key {odd!r}{place} reads back as text; keys are text, or the type says what they are"
        inner = [(value[key], back[key], key) for key in value]
    elif isinstance(value, list) and isinstance(back, list):
        inner = [*zip(value, back, range(len(value)), strict=True)]
    elif type(value) is type(back):
        return None  # not a number, an object that compares by identity
    else:
        kinds = f"the {type(value).__name__}{place} reads back as {type(back).__name__}"
        return f"{kinds}; convert it, or give it a type that says what it is"
    found = (difference(one, other, f"{place or ' at '}[{key!r}]") for one, other, key in inner)
    return next((each for each in found if each is not None), None)


def json_of_typed(value: Any, what: str) -> str:
    """As `json_of`, also for other types of arguments: models, dataclasses, datetimes, decimals, enums, sets, bytes.

    The format is that of arguments without a type: ISO 8601, decimals as text, sets as lists, bytes in base64.
    """
    try:
        return _dumped(value, what)
    except InvalidArguments as error:
        if isinstance(error.__cause__, ValueError | RecursionError):
            raise
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")
    except (ValueError, RecursionError) as error:  # pydantic's PydanticSerializationError is a ValueError
        raise InvalidArguments(
            f"{what} cannot be stored as JSON: {error}; give a model, a dataclass, or what JSON has a word for"
        ) from error
    return _dumped(plain, what)


def check_depth(text: str, value: Any, what: str) -> None:
    """Raise InvalidArguments if `value`, whose JSON is `text`, is nested more than `DEPTH_MAX` levels deep."""
    if is_deeper(text, value, than=DEPTH_MAX):
        raise InvalidArguments(f"{what} cannot be stored as JSON: more than {DEPTH_MAX} levels deep")


def is_deeper(text: str, value: Any, *, than: int) -> bool:
    """Whether `value`, whose JSON is `text`, is nested more than `than` levels deep."""
    if text.count("[") + text.count("{") <= than:
        return False
    level = [value]
    for _ in range(than):
        within = (each.values() if isinstance(each, dict) else each for each in level)
        level = [inner for values in within for inner in values if isinstance(inner, dict | list | tuple)]
        if not level:
            return False
    return True


def storable(text: str) -> str:
    """`text` with escapes for what a database refuses: PostgreSQL stores no NUL, and UTF-8 has no lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def readable(text: str) -> str:
    """JSON text in ASCII, with each lone surrogate escaped twice: pydantic refuses arguments with its plain escape."""
    return _SURROGATES.sub(lambda found: f"\\\\{found[1]}" if found[1] else found[0], text)


def size_of(text: str) -> int:
    """The size of a stored text in bytes: a character beyond ASCII takes more than one.

    Texts of errors may have lone surrogates, which are stored escaped.
    """
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
