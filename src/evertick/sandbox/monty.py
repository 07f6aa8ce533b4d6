"""The protocol of the Python engine, Monty 1.4.0, on the supervisor's side: reads and writes its frames.

Monty is a separate program that reads requests on its input and writes events to its output. The supervisor does not
use its client, because that runs in the caller's process, starts the program itself and converts values of any size. A
hardened child of the zygote executes the program, and this module has the few messages that a run needs.

A message is a list of fields, each with a number (Protocol Buffers). A Python value is a list of nodes, which refer to
earlier ones; a list that is in another twice is sent once. So a small message can describe a huge value, and sizes are
summed before a value is built. A value that is not JSON is a mistake of the script; a broken format is not.

    configure -> ok -> (the supervisor seals the child) -> feed: the script -> complete -> feed: its main -> complete
    meanwhile:  print | function call -> resume | import, sleep, files: os call -> resume | name lookup -> undefined
"""

import json
import math
import re
import struct
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from evertick.sandbox.frames import (
    Called,
    Event,
    Logged,
    Malformed,
    NotStrict,
    Reply,
    Returned,
    Seal,
    Sleep,
    Stopped,
    cut,
    frame,
    functions_of,
    not_strict,
    script_error,
    utf8,
)
from evertick.sandbox.protocol import (
    INTEGER_DIGITS,
    LOG_LINE_BYTES,
    MESSAGE_BYTES,
    NOWHERE,
    RESULT_DEPTH,
    Json,
    Limits,
    Outcome,
    Place,
)

VERSION: Final = "1.4.0"
PROTOCOL: Final = 6
RECURSION: Final = 1_000
SCRIPT: Final = "<python-input-0>"
"""Monty's name for the first code of a session."""
START: Final = """\
import ctx as __ctx
__ended = main(__ctx)
(await __ended) if type(__ended).__name__ == 'coroutine' else __ended
"""
CHECK: Final = "raise KeyboardInterrupt\n"
"""The first line of a source that is only checked: the source is parsed completely, but not executed beyond it."""
HAS_MAIN: Final = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+main\b|(?<![\w.])main[ \t]*(?:=(?!=)|:)|\bas[ \t]+main\b", re.MULTILINE
)
"""Matches a definition of the name main in a script."""
NO_MAIN: Final = "the script has no function main: def main(ctx): ..."
MISSING: Final = re.compile(r"module '(ctx(?:\.\w+)*)' has no attribute '(\w+)'")
INTERNAL: Final = "Internal error in monty: "
"""The prefix of Monty's messages for unsupported features."""
ODD: Final = {
    "exceptions can only be called with zero or one string argument":
        "an exception takes nothing or one text: raise ValueError('why')",
}  # fmt: skip
IMPORT, SLEEP, ASYNC_SLEEP = 31, 29, 30
KINDS: Final = {
    9: "bytes", 13: "a named tuple", 15: "a set", 16: "a frozenset", 17: "a date", 18: "a time", 19: "a datetime",
    20: "a timedelta", 21: "a time zone", 22: "an exception", 23: "a class", 24: "an instance of a class",
    25: "a function", 26: "a function", 27: "a path", 28: "a file", 30: "a value that contains itself", 32: "a module",
}  # fmt: skip


class Node(NamedTuple):
    """A value, and the size and depth of its JSON."""

    value: Json
    size: int
    depth: int
    fault: str = ""
    """The reason why it is not JSON; empty if it is."""


# ------------------------------------------------------------------------------------------------------------- messages


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message. Raises Malformed."""
    at, end = 0, len(body)
    while at < end:
        key, at = _varint(body, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(body, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(body, at)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise Malformed("a field of an unknown kind")
        if size > end - at:
            raise Malformed("a field that is cut")
        yield number, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in body[at : at + 10]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise Malformed("a number that is cut")


def message(body: bytes) -> dict[int, int | bytes]:
    """A message by its fields' numbers; the last one of duplicate fields. Raises Malformed."""
    return dict(fields(body))


def _bytes(found: Mapping[int, int | bytes], number: int) -> bytes:
    value = found.get(number, b"")
    if not isinstance(value, bytes):
        raise Malformed("a number where bytes are expected")
    return value


def _number(found: Mapping[int, int | bytes], number: int) -> int:
    value = found.get(number, 0)
    if not isinstance(value, int):
        raise Malformed("bytes where a number is expected")
    return value


def packed(body: bytes) -> list[int]:
    """The numbers of a packed field. Raises Malformed."""
    numbers, at = [], 0
    while at < len(body):
        number, at = _varint(body, at)
        numbers.append(number)
    return numbers


def varint(value: int) -> bytes:
    """The encoding of a number."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def field(number: int, value: int | bytes | str) -> bytes:
    """The encoding of a field: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


# --------------------------------------------------------------------------------------------------------------- values


def read_nodes(body: bytes) -> list[Node]:
    """The values of a message, each with the size of its JSON. Raises Malformed."""
    nodes: list[Node] = []
    for number, content in fields(body):
        if number == 2:
            if not isinstance(content, bytes):
                raise Malformed("a value that is a number")
            nodes.append(_node(content, nodes))
        elif number != 1:
            raise Malformed("an unknown field of values")
    return nodes


def _node(body: bytes, nodes: list[Node]) -> Node:
    parts = list(fields(body))
    if len(parts) != 1:
        raise Malformed("a value of two kinds")
    kind, content = parts[0]
    if kind in {4, 5}:
        if not isinstance(content, int):
            raise Malformed("a number that is bytes")
        whole = bool(content) if kind == 4 else (content >> 1) ^ -(content & 1)
        return Node(whole, 20, 0)
    if not isinstance(content, bytes):
        raise Malformed("bytes that are a number")
    if kind == 2:
        return Node(None, 4, 0)
    if kind == 6:
        return _large_integer(message(content))
    if kind == 7:
        if len(content) != 8:
            raise Malformed("a float of another size")
        (real,) = struct.unpack("<d", content)
        return Node(real, 24, 0, "" if math.isfinite(real) else f"{real} is not a number of JSON")
    if kind == 8:
        return Node(utf8(content), len(content) + 2, 0)
    if kind in {11, 12}:
        return _list(packed(_bytes(message(content), 1)), nodes)
    if kind == 14:
        return _dict(content, nodes)
    return Node(None, 0, 0, f"{KINDS.get(kind, 'a value of this type')} is not a value of JSON")


def _large_integer(found: Mapping[int, int | bytes]) -> Node:
    magnitude = _bytes(found, 2)
    if len(magnitude) * 2.408 > INTEGER_DIGITS:
        return Node(None, 0, 0, f"an integer has more than {INTEGER_DIGITS} digits")
    value = int.from_bytes(magnitude)
    return Node(-value if _number(found, 1) else value, len(magnitude) * 3, 0)


def _earlier(index: int, nodes: list[Node]) -> Node:
    if index >= len(nodes):
        raise Malformed("a value that contains itself")
    return nodes[index]


def _list(indices: list[int], nodes: list[Node]) -> Node:
    items = [_earlier(index, nodes) for index in indices]
    fault = next((item.fault for item in items if item.fault), "")
    depth = 1 + max((item.depth for item in items), default=0)
    return Node([item.value for item in items], 2 + sum(item.size + 1 for item in items), depth, fault)


def _dict(body: bytes, nodes: list[Node]) -> Node:
    value: dict[str, Json] = {}
    size, depth, fault = 2, 1, ""
    for number, content in fields(body):
        if number != 1 or not isinstance(content, bytes):
            raise Malformed("a dict of something else than pairs")
        pair = message(content)
        key, item = (_earlier(_number(pair, part), nodes) for part in (1, 2))
        size += key.size + item.size + 2
        depth = max(depth, 1 + item.depth)
        fault = fault or key.fault or item.fault
        if isinstance(key.value, str):
            value[key.value] = item.value
        else:
            fault = fault or "a key of a dict is not a str"
    return Node(value, size, depth, fault)


class Values:
    """Values to be written: nodes, each after those that it refers to."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []

    def add(self, number: int, content: int | bytes | str) -> int:
        self.nodes.append(field(2, field(number, content)))
        return len(self.nodes) - 1

    def json(self, value: Json) -> int:
        """The index of a value of JSON."""
        if value is None:
            return self.add(2, b"")
        if isinstance(value, bool):
            return self.add(4, int(value))
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):
            self.nodes.append(field(2, varint(7 << 3 | 1) + struct.pack("<d", value)))
            return len(self.nodes) - 1
        if isinstance(value, str):
            return self.add(8, value.encode(errors="replace"))
        if isinstance(value, list):
            return self.add(11, field(1, b"".join(varint(self.json(item)) for item in value)))
        return self.table([(self.json(key), self.json(item)) for key, item in value.items()])

    def _integer(self, value: int) -> int:
        if -(1 << 63) <= value < 1 << 63:
            return self.add(5, (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)
        magnitude = abs(value)
        return self.add(6, field(1, int(value < 0)) + field(2, magnitude.to_bytes((magnitude.bit_length() + 7) // 8)))

    def table(self, pairs: Sequence[tuple[int, int]]) -> int:
        return self.add(14, b"".join(field(1, field(1, key) + field(2, item)) for key, item in pairs))

    def module(self, name: str, members: Mapping[str, object]) -> int:
        """A module whose members are functions (`True`), modules (mappings) and constants (tuples of one value)."""
        pairs = []
        for member, content in members.items():
            key = self.json(member)
            path = f"{name}.{member}"
            if isinstance(content, dict):
                pairs.append((key, self.module(path, content)))
            elif isinstance(content, tuple):
                pairs.append((key, self.json(content[0])))
            else:
                pairs.append((key, self.add(25, field(1, path))))
        attributes = b"".join(field(1, field(1, key) + field(2, item)) for key, item in pairs)
        return self.add(32, field(1, name) + field(2, field(1, uuid.uuid4().bytes)) + field(3, attributes))

    def written(self) -> bytes:
        return field(1, len(self.nodes)) + b"".join(self.nodes)


# ------------------------------------------------------------------------------------------------------------- requests


def configure(limits: Limits, now_ms: int | None = None) -> bytes:
    """The request that begins a session. If `now_ms` is given, its clock stands still at that time."""
    bounds = field(2, limits.memory_bytes) + field(4, RECURSION) + field(5, limits.host_calls)
    wait = field(1, field(1, 10_000_000))  # for `sleep`, which the client does, here the supervisor
    clock = field(1, b"") if now_ms is None else field(3, field(1, now_ms // 1_000) + field(2, now_ms % 1_000 * 1_000))
    policy = clock + field(4, field(1, b"")) + field(5, wait) + field(6, b"") + field(9, b"")
    said = field(1, "script.py") + field(2, bounds) + field(5, VERSION) + field(6, 120) + field(7, 1)
    return frame(field(1, said + field(9, PROTOCOL) + field(11, policy)))


def feed(code: str) -> bytes:
    """The request to execute code in the session."""
    return frame(field(3, field(1, code) + field(3, b"") + field(5, "/")))


def resume(call: int, result: bytes, values: bytes = b"") -> bytes:
    """The reply to a call of a function or of the system."""
    numbered = field(1, call) if call else b""
    return frame(field(4, numbered + field(2, result) + (field(3, values) if values else b"")))


def resume_futures(calls: Sequence[int]) -> bytes:
    """The reply that sleeps are over."""
    values = Values()
    results = b"".join(
        field(1, (field(1, call) if call else b"") + field(2, field(1, values.json(None)))) for call in calls
    )
    return frame(field(6, results + field(2, values.written())))


UNDEFINED: Final = frame(field(5, field(3, b"")))


class PythonProtocol:
    """The protocol of one Monty process: converts frames to events and replies."""

    def __init__(
        self, source: str, names: Sequence[str], context: Mapping[str, Json], limits: Limits, mode: str,
        now_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.source, self.limits, self.mode, self.now_ms = source, limits, mode, now_ms
        self.modules: dict[str, object] = {"log": True, **{name: (value,) for name, value in context.items()}}
        for name in names:
            table = self.modules
            *path, last = name.split(".")
            for part in path:
                table = table.setdefault(part, {})  # type: ignore[assignment]
            table[last] = True
        self.functions = frozenset(names)
        self.head, self.cuts_logs = 2 * MESSAGE_BYTES, False
        self.longest = 4 * max(limits.argument_bytes, limits.result_bytes) + (64 << 10)
        self.stage = "configure"
        self.line = ""
        self.sleeping: dict[int, float] = {}

    def begin(self) -> bytes:
        return configure(self.limits, self.now_ms)

    def oversized(self, head: bytes) -> Event:
        """The event of a frame that is too long. Raises Malformed."""
        kind = head[0] >> 3 if head else 0
        if kind == 6:
            return Stopped(Outcome.OUTPUT, "result_bytes", None)
        if kind in {2, 3}:
            return Stopped(Outcome.LIMIT, "argument_bytes", None)
        if kind == 7:
            return Stopped(Outcome.ERROR, None, script_error(*_names_of_error(head), "", None, None))
        raise Malformed("a frame that is too long")

    def read(self, body: bytes) -> list[Event]:
        """The events of a frame. Raises Malformed."""
        kinds = [(number, content) for number, content in fields(body) if number < 20 and isinstance(content, bytes)]
        if len(kinds) != 1:
            raise Malformed("an event of no kind or two")
        kind, content = kinds[0]
        if self.stage == "configure":
            if kind != 10:
                return [Stopped(Outcome.INTERNAL, None, None)]
            self.stage = "check" if self.mode == "check" else "script"
            return [Seal(feed(CHECK + self.source if self.mode == "check" else self.source))]
        if kind == 1:
            return list(self._printed(content))
        if kind == 2:
            return [self._called(content)]
        if kind == 3:
            return [self._system(message(content))]
        if kind == 4:
            return [Reply(UNDEFINED)]
        if kind == 5:
            return [self._awaited(message(content))]
        if kind == 6:
            return self._complete(content)
        if kind == 7:
            return [*self.flush(), self._error(content)]
        raise Malformed("an event of an unknown kind")

    def flush(self) -> list[Event]:
        """The printed line that has no line break yet."""
        rest, self.line = self.line, ""
        return [Logged("info", cut(rest, LOG_LINE_BYTES))] if rest else []

    def returned(self, call: Called, value: Json) -> bytes:
        """The reply to a call: its result."""
        values = Values()
        root = values.json(value)
        return resume(call.number, field(1, root), values.written())

    def raised(self, call: Called, name: str, text: str, code: str) -> bytes:
        """The reply to a call: its error, which a script can catch. `code` is the beginning of its message."""
        kind = name if name in {"TypeError", "ValueError"} else "RuntimeError"
        said = f"{code}: {text}" if kind == "RuntimeError" else text
        return resume(call.number, field(2, field(1, kind) + field(2, cut(said, MESSAGE_BYTES))))

    def _printed(self, body: bytes) -> Iterator[Event]:
        for _, segment in fields(body):
            if not isinstance(segment, bytes):
                raise Malformed("a text that is a number")
            *lines, self.line = (self.line + utf8(_bytes(message(segment), 2))).split("\n")
            for line in lines:
                yield Logged("info", cut(line, LOG_LINE_BYTES))
            if len(self.line) >= LOG_LINE_BYTES:
                yield from self.flush()

    def _called(self, body: bytes) -> Event:
        found = message(body)
        name, call = utf8(_bytes(found, 1)), _number(found, 4)
        nodes = read_nodes(_bytes(found, 7))
        if not name.startswith("ctx."):
            if name in {"ctx", ""} or 5 in found:
                raise Malformed("a call of something that is not a function")
            return Reply(resume(call, field(4, name)))
        name = name.removeprefix("ctx.")
        items = [_earlier(index, nodes) for index in packed(_bytes(found, 2))]
        if name == "log":
            shown = " ".join(map(_shown, items))
            return Logged("info", cut(shown, LOG_LINE_BYTES), self._nothing(call))
        named = 3 in found
        size = 2 + sum(item.size + 1 for item in items)
        if size > self.limits.argument_bytes:
            return Stopped(Outcome.LIMIT, "argument_bytes", None)
        fault = next((NotStrict("json", item.fault) for item in items if item.fault), None)
        if any(item.depth >= RESULT_DEPTH for item in items):
            fault = NotStrict("depth", f"lists and dicts are more than {RESULT_DEPTH} deep")
        if named:
            fault = NotStrict("json", "functions of ctx take no arguments by name")
        return Called(name, [item.value for item in items], fault, call, self._place(message(_bytes(found, 8))))

    def _place(self, found: Mapping[int, int | bytes]) -> Place:
        """The place of a call, which Monty gives as offsets in bytes."""
        if _bytes(found, 1).decode(errors="replace") != SCRIPT:
            return NOWHERE
        before = self.source.encode()[: _number(found, 2)]
        start = before.rfind(b"\n") + 1
        return Place(before.count(b"\n") + 1, len(before[start:].decode(errors="replace")) + 1)

    def _nothing(self, call: int) -> bytes:
        values = Values()
        return resume(call, field(1, values.json(None)), values.written())

    def _system(self, found: dict[int, int | bytes]) -> Event:
        call = _number(found, 1)
        if IMPORT in found and utf8(_bytes(message(_bytes(found, IMPORT)), 1)) == "ctx":
            values = Values()
            root = values.module("ctx", self.modules)
            return Reply(resume(call, field(1, root), values.written()))
        if IMPORT in found:
            return Reply(resume(call, field(4, "import")))
        for number in (SLEEP, ASYNC_SLEEP):
            if number in found:
                return self._sleep(call, _bytes(found, number), awaited=number == ASYNC_SLEEP, at_once=51 in found)
        return Reply(resume(call, field(5, b"")))

    def _sleep(self, call: int, body: bytes, *, awaited: bool, at_once: bool) -> Event:
        duration = _bytes(message(body), 1) or bytes(8)
        if len(duration) != 8:
            raise Malformed("a sleep of another size")
        (seconds,) = struct.unpack("<d", duration)
        seconds = seconds if seconds > 0 else 0.0
        if not awaited:
            return Sleep(seconds, self._nothing(call))
        if at_once:
            return Sleep(seconds, resume_futures([call]))
        if len(self.sleeping) >= self.limits.host_calls:
            return Stopped(Outcome.LIMIT, "host_calls", None)
        self.sleeping[call] = time.monotonic() + seconds
        return Reply(resume(call, field(3, call)))

    def _awaited(self, found: dict[int, int | bytes]) -> Event:
        waits = {call: self.sleeping.get(call) for call in packed(_bytes(found, 1))}
        times = [at for at in waits.values() if at is not None]
        if not times or len(times) < len(waits):
            raise Malformed("a wait for a call that was not begun")
        first = min(times)
        over = [call for call, at in waits.items() if at == first]
        for call in over:
            del self.sleeping[call]
        return Sleep(max(0.0, first - time.monotonic()), resume_futures(over))

    def _complete(self, body: bytes) -> list[Event]:
        found = message(body)
        nodes = read_nodes(_bytes(found, 2))
        root = _earlier(_number(found, 1), nodes)
        if self.stage == "script":
            self.stage = "main"
            return [Reply(feed(START))]
        if self.stage == "check":
            raise Malformed("a check that has a result")
        ended: Event
        if root.size > self.limits.result_bytes:
            ended = Stopped(Outcome.OUTPUT, "result_bytes", None)
        elif root.fault:
            ended = not_strict(NotStrict("json", root.fault))
        elif root.depth > RESULT_DEPTH:
            ended = not_strict(NotStrict("depth", f"lists and dicts are more than {RESULT_DEPTH} deep"))
        else:
            ended = Returned(json.dumps(root.value))
        return [*self.flush(), ended]

    def _error(self, body: bytes) -> Event:
        found = message(_bytes(message(body), 1))
        name, text = utf8(_bytes(found, 1)), utf8(_bytes(found, 2))
        frames = [self._frame(part) for number, part in fields(_bytes(message(body), 1)) if number == 3]
        own = [(line, column, shown) for source, line, column, shown in frames if source == SCRIPT]
        if self.stage == "check" and own and not own[0][0] and name == "KeyboardInterrupt":
            if HAS_MAIN.search(self.source):
                return Returned("null")
            return Stopped(Outcome.ERROR, None, script_error("", NO_MAIN, "", None, None))
        line, column = own[-1][:2] if own else (None, None)
        if name == "MemoryError":
            error = script_error(name, "the script needs more memory than it may use", "", line, column)
            return Stopped(Outcome.MEMORY, "memory_bytes", error)
        if name == "NameError" and self.stage == "main" and not own:
            text = NO_MAIN
        if name == "AttributeError" and (missing := MISSING.match(text)):
            path = f"{missing[1]}.{missing[2]}".removeprefix("ctx.")
            text = f"{text}; {functions_of(path, sorted(self.functions))}"
        if name == "RuntimeError" and text.startswith(INTERNAL):
            odd = text.removeprefix(INTERNAL)
            text = ODD.get(odd, f"the Python of scripts does not have this: {odd}")
        stack = "\n".join(shown for *_, shown in own)
        return Stopped(Outcome.ERROR, None, script_error(name, text, stack, line or None, column))

    def _frame(self, body: int | bytes) -> tuple[str, int, int | None, str]:
        if not isinstance(body, bytes):
            raise Malformed("a frame of a stack that is a number")
        found = message(body)
        start = message(_bytes(found, 2))
        source, name = utf8(_bytes(found, 1)), utf8(_bytes(found, 4)) or "<module>"
        above = self.stage == "check"  # the line of CHECK
        line, column = (at if 0 < at < 1 << 31 else None for at in (_number(start, 1) - above, _number(start, 2)))
        shown = f"script.py:{line}:{column} in {name}\n    {utf8(_bytes(found, 5)).strip()}"
        return source, line or 0, column, shown


def _shown(node: Node) -> str:
    if isinstance(node.value, str):
        return node.value
    if node.size > LOG_LINE_BYTES:
        return "[a value that is too large to be shown]"
    return f"[{node.fault}]" if node.fault else json.dumps(node.value, ensure_ascii=False)


def _names_of_error(head: bytes) -> tuple[str, str]:
    """The type and the beginning of the message of an error whose frame was cut. Raises Malformed."""
    at, texts = 0, ["Error", ""]
    for _ in range(2):  # the event, and the error in it
        _, at = _varint(head, at)
        _, at = _varint(head, at)
    for part, key in enumerate((0x0A, 0x12)):
        if head[at : at + 1] != bytes([key]):
            break
        size, at = _varint(head, at + 1)
        texts[part] = head[at : at + min(size, MESSAGE_BYTES)].decode(errors="ignore")
        at += size
    return texts[0], texts[1]
