"""Frames between the supervisor and a child, and strict JSON for results.

A frame is its length (four bytes, little-endian), then a letter, then the body. The Python engine has the same
lengths and different bodies; see `monty.py`.

    to a child      J  the job, as JSON            V  what a host function returned, as JSON     X  its error, as JSON
    from a child    L  a line of log: a letter of its level, then the text
                    C  a host call: the function's name, @LINE:COLUMN if known, NUL, its arguments as a JSON list
                    R  the result, as JSON text
                    E  another end of the run, as JSON

Frames of a child are untrusted: `read_event` returns an event or raises `Malformed`, which a script can cause only by
taking over its engine. For everything that a script can cause there is an event.
"""

import difflib
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Never, Protocol

from evertick.sandbox.protocol import (
    INTEGER_DIGITS,
    LOG_LINE_BYTES,
    MESSAGE_BYTES,
    NOWHERE,
    RESULT_DEPTH,
    STACK_BYTES,
    Json,
    Limits,
    Outcome,
    Place,
    ScriptError,
)

HEADER: Final = struct.Struct("<I")
LEVELS: Final = {ord("d"): "debug", ord("i"): "info", ord("w"): "warning", ord("e"): "error"}
NAME_BYTES: Final = 200
PLACE: Final = re.compile(r"([1-9]\d{0,8})(?::([1-9]\d{0,8}))?", re.ASCII)
ENDS: Final = {
    "error": Outcome.ERROR,
    "memory": Outcome.MEMORY,
    "output": Outcome.OUTPUT,
    "limit": Outcome.LIMIT,
    "internal": Outcome.INTERNAL,
}
"""The outcomes that a child may report; the supervisor determines the others."""
ERROR_BYTES: Final = 8 * (MESSAGE_BYTES + STACK_BYTES)
"""The longest frame with an error: its texts with every letter escaped."""
EXACT: Final = (1 << 53) - 1
"""The largest integer that JavaScript represents exactly, with all below it."""
CALL: Final = re.compile(r"(?<![\w$.])ctx\.([A-Za-z_]\w{0,62}(?:\.\w{1,62}){0,2})\s{0,9}\(", re.ASCII)
SEARCHED_CHARS: Final = 200
LARGE: Final = re.compile(r"[0-9]{16}")
LIMITS_OF_CHILDREN: Final = {
    None, "memory_bytes", "result_bytes", "result_json", "result_depth", "argument_bytes", "source_bytes",
}  # fmt: skip


class Malformed(Exception):
    """A frame that only a compromised child can send."""


class NotStrict(Exception):
    """A text that is not strict JSON."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what
        """json, depth, number or text: the suffix of the limit's name."""


class Logged(NamedTuple):
    """A log line, and the reply that the child waits for, if any."""

    level: str
    text: str
    reply: bytes = b""


class Called(NamedTuple):
    """A host function was called."""

    name: str
    arguments: list[Json]
    fault: NotStrict | None = None
    """The reason why the arguments are not JSON; the script gets it as an error."""
    number: int = 0
    """The number of the call, if the engine numbers them."""
    place: Place = NOWHERE


class Returned(NamedTuple):
    """The result: strict JSON within its limits."""

    text: str


class Stopped(NamedTuple):
    """The run ended without a result."""

    outcome: Outcome
    limit: str | None
    error: ScriptError | None


class Reply(NamedTuple):
    """The child waits for these bytes only."""

    data: bytes


class Seal(NamedTuple):
    """The child has loaded its engine. Before the bytes are sent, the system calls of its loader are disabled."""

    data: bytes


class Sleep(NamedTuple):
    """The script sleeps; the bytes are sent afterwards."""

    seconds: float
    data: bytes


Event = Logged | Called | Returned | Stopped | Reply | Seal | Sleep


class EngineProtocol(Protocol):
    """The protocol of an engine, on the supervisor's side of one child: converts frames to events."""

    longest: int
    """The longest frame that is read."""
    head: int
    """The bytes of a longer frame that are read and passed to `oversized`."""
    cuts_logs: bool
    """Whether a child that is not compromised stops sending logs at their limit."""

    def begin(self) -> bytes: ...

    def read(self, body: bytes) -> list[Event]: ...

    def oversized(self, head: bytes) -> Event: ...

    def returned(self, call: Called, value: Json) -> bytes: ...

    def raised(self, call: Called, name: str, text: str, code: str) -> bytes: ...


class JavaScriptProtocol:
    """The protocol of a child of `javascript.py`."""

    def __init__(
        self, source: str, names: Sequence[tuple[str, bool]], context: Mapping[str, Json], limits: Limits, mode: str,
        now_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.source, self.names, self.limits, self.mode = source, [name for name, _ in names], limits, mode
        self.head, self.cuts_logs = 0, True
        self.longest = max(limits.argument_bytes + NAME_BYTES, limits.result_bytes, ERROR_BYTES) + 16
        said = {
            "source": source, "names": names, "context": context, "limits": limits._asdict(), "mode": mode,
            "now_ms": now_ms,
        }  # fmt: skip
        self.job = json.dumps(said).encode()

    def begin(self) -> bytes:
        return frame(b"J" + self.job)

    def oversized(self, head: bytes) -> Event:
        raise Malformed("a frame that is too long")

    def read(self, body: bytes) -> list[Event]:
        event = read_event(body, self.limits)
        if not isinstance(event, Stopped) or event.error is None or event.error.message != "not a function":
            return [event]
        words = unknown_function(self.source, event.error.line, event.error.column, self.names)
        return [event._replace(error=event.error._replace(message=words or event.error.message))]

    def returned(self, call: Called, value: Json) -> bytes:
        return frame(b"V" + json.dumps(value).encode())

    def raised(self, call: Called, name: str, text: str, code: str) -> bytes:
        said = {"name": name, "message": cut(text, MESSAGE_BYTES), "code": code}
        return frame(b"X" + json.dumps(said).encode())


def frame(body: bytes) -> bytes:
    """The body after its length."""
    return HEADER.pack(len(body)) + body


def read_event(body: bytes, limits: Limits) -> Event:
    """The event of a frame. Raises Malformed."""
    kind, rest = body[:1], body[1:]
    if kind == b"L":
        if not 1 <= len(rest) <= LOG_LINE_BYTES + 1 or rest[0] not in LEVELS:
            raise Malformed("log")
        return Logged(LEVELS[rest[0]], utf8(rest[1:]))
    if kind == b"C":
        said, separator, arguments = rest.partition(b"\0")
        if not separator or len(said) > NAME_BYTES or not said.isascii():
            raise Malformed("the name of a call")
        if len(arguments) > limits.argument_bytes:
            raise Malformed("the size of arguments")
        name, at, place = said.decode().partition("@")
        return _called(name, utf8(arguments))._replace(place=_place(place) if at else NOWHERE)
    if kind == b"R":
        if len(rest) > limits.result_bytes:
            raise Malformed("the size of a result")
        return returned(utf8(rest))
    if kind == b"E":
        return _stopped(rest)
    raise Malformed("the kind of a frame")


def _place(text: str) -> Place:
    found = PLACE.fullmatch(text)
    if found is None:
        raise Malformed("the place of a call")
    line, column = found.groups()
    return Place(int(line), int(column) if column else None)


def _called(name: str, text: str) -> Called:
    try:
        arguments = _as_doubles(strict(text)) if LARGE.search(text) else strict(text)
    except NotStrict as error:
        if error.what == "json":
            raise Malformed("arguments that are not JSON") from error
        return Called(name, [], error)
    if not isinstance(arguments, list):
        raise Malformed("arguments that are not a list")
    return Called(name, arguments)


def returned(text: str) -> Returned | Stopped:
    """The result, or Stopped if it is not strict JSON. Raises Malformed if it is not JSON at all."""
    try:
        strict(text)
    except NotStrict as error:
        if error.what == "json":
            raise Malformed("a result that is not JSON") from error
        return not_strict(error)
    return Returned(text)


def not_strict(error: NotStrict) -> Stopped:
    """The end of a run whose result is not JSON."""
    message = f"the result is not JSON: {error}"
    return Stopped(Outcome.OUTPUT, f"result_{error.what}", ScriptError("", message))


def _stopped(body: bytes) -> Stopped:
    if len(body) > ERROR_BYTES:
        raise Malformed("the size of an error")
    try:
        said = strict(utf8(body))
    except NotStrict as error:
        raise Malformed("an error that is not JSON") from error
    if not isinstance(said, dict) or said.keys() != {"outcome", "limit", "name", "message", "stack", "line", "column"}:
        raise Malformed("the members of an error")
    outcome, limit = said["outcome"], said["limit"]
    if not isinstance(outcome, str) or outcome not in ENDS or not isinstance(limit, str | None):
        raise Malformed("the outcome of an error")
    if limit not in LIMITS_OF_CHILDREN:
        raise Malformed("the limit of an error")
    texts = said["name"], said["message"], said["stack"]
    place = said["line"], said["column"]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed("the texts of an error")
    if not all(at is None or (type(at) is int and 0 < at < 1 << 31) for at in place):
        raise Malformed("the place of an error")
    return Stopped(ENDS[outcome], limit, script_error(*texts, *place))


def unknown_function(source: str, line: int | None, column: int | None, names: Sequence[str]) -> str | None:
    """The message for a call, at this place, of a function that `ctx` does not have; None for any other error."""
    lines = source.splitlines()
    if line is None or line > len(lines):
        return None
    begin = max(0, (column or 1) - SEARCHED_CHARS)
    for found in CALL.finditer(lines[line - 1][begin : begin + 2 * SEARCHED_CHARS]):
        path = found[1]
        if path != "log" and path not in names:
            return f"ctx.{path} is not a function; {functions_of(path, names)}"
    return None


def functions_of(path: str, names: Sequence[str]) -> str:
    """A hint with the functions that `ctx` has instead of `path`."""
    group, _, word = path.rpartition(".")
    there = sorted(name.removeprefix(f"{group}.") for name in names if group and name.startswith(f"{group}."))
    if not there:
        group, word, there = "", path.partition(".")[0], sorted({"log", *(name.partition(".")[0] for name in names)})
    whole = f"ctx.{group}" if group else "ctx"
    near = difflib.get_close_matches(word, there, n=1)
    return f"{f'did you mean {whole}.{near[0]}? ' if near else ''}{whole} has {', '.join(there)}"


def script_error(name: str, message: str, stack: str, line: int | None, column: int | None) -> ScriptError:
    """An error with its texts cut to their limits."""
    return ScriptError(cut(name, NAME_BYTES), cut(message, MESSAGE_BYTES), cut(stack, STACK_BYTES), line, column)


def cut(text: str, size: int) -> str:
    """The beginning of a text, at most `size` bytes of UTF-8."""
    if len(text) * 4 <= size:
        return text
    encoded = text[:size].encode(errors="replace")
    return text if len(encoded) <= size and len(text) <= size else encoded[:size].decode(errors="ignore")


def utf8(body: bytes) -> str:
    """The text of bytes. Raises Malformed."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Malformed("bytes that are not UTF-8") from error


# ---------------------------------------------------------------------------------------------------------- strict JSON


def strict(text: str) -> Json:
    """The value of a JSON text that every JSON reader and every database can process.

    Raises NotStrict for what is not JSON, for NaN and infinity (`1e999`, too), for duplicate names, for integers
    of more than `INTEGER_DIGITS` digits, for lone surrogates, and for values nested deeper than `RESULT_DEPTH`.
    """
    try:
        found = json.loads(
            text, parse_constant=_no_constant, parse_int=_integer, parse_float=_finite, object_pairs_hook=_members
        )
    except NotStrict:
        raise
    except RecursionError:
        raise NotStrict("depth", f"lists and objects are more than {RESULT_DEPTH} deep") from None
    except ValueError as error:
        raise NotStrict("json", f"this is not JSON: {error}") from None
    if text.count("[") + text.count("{") > RESULT_DEPTH:
        _check_depth(found)
    if "\\u" in text and _has_surrogate(found):
        raise NotStrict("text", "a text contains a lone surrogate (\\ud83d)")
    return found


def _as_doubles(value: Json) -> Json:
    """A JavaScript value with integers beyond 2^53 as floats, because their last digits are not exact."""
    if isinstance(value, list):
        return [_as_doubles(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_doubles(each) for name, each in value.items()}
    return float(value) if type(value) is int and abs(value) > EXACT else value


def _no_constant(word: str) -> Never:
    raise NotStrict("number", f"{word} is not a number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS:
        raise NotStrict("number", f"an integer has more than {INTEGER_DIGITS} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits) if len(digits) <= INTEGER_DIGITS else math.inf
    if not math.isfinite(number):
        raise NotStrict("number", f"{digits[:20]} is too large for a number")
    return number


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotStrict("json", "an object has a member twice")
    return found


def _check_depth(value: Json) -> None:
    level, depth = [value], 0
    while level:
        inner: list[Json] = []
        for one in level:
            if isinstance(one, list):
                inner.extend(one)
            elif isinstance(one, dict):
                inner.extend(one.values())
        depth += bool(inner) or any(isinstance(one, list | dict) for one in level)
        if depth > RESULT_DEPTH:
            raise NotStrict("depth", f"lists and objects are more than {RESULT_DEPTH} deep")
        level = inner


def _has_surrogate(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
