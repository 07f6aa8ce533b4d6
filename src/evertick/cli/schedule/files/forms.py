"""JSON: read with the line of each schedule in it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from evertick.base.errors import Misuse
from evertick.base.escaping import json_text, no_constant, object_of, yaml_text

# -- A file as it was read: its value, and the line of each part of it.

SCHEDULES: Final = "schedules"
CRONS: Final = "crons"
"""The keys of a file. Crons are declared in code: a file may show them, and `apply` leaves them alone."""

Place = tuple[str | int, ...]
"""Where a part is: keys and indexes from the top, as `("schedules", 0, "when")`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value of a file, and the lines where its parts begin."""

    name: str
    value: Any
    lines: Mapping[Place, int]

    def where(self, place: Place = ()) -> str:
        """`FILE:LINE` of a part; if its line is not known, that of the smallest known part that contains it."""
        for end in range(len(place), -1, -1):
            if (line := self.lines.get(place[:end])) is not None:
                return f"{self.name}:{line}"
        return self.name


class Unreadable(Misuse):
    """A file that is not valid JSON or YAML. The message begins with `FILE:LINE:`."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        super().__init__(f"{name}:{line}: {problem}")


SPACE: Final = re.compile(r"[ \t\r\n]*")


def json_of(value: Any) -> str:
    """A value as JSON; keys keep their order."""
    return json_text(value, indent=2) + "\n"


def read_json(text: str, name: str) -> Parsed:
    """The value of a file. Raises Unreadable."""
    reader = _Reader(text)
    try:
        value, end = reader.value(reader.past_space(0), (), deep=3)
        if reader.past_space(end) < len(text):
            raise json.JSONDecodeError("there is more after the value", text, end)
    except json.JSONDecodeError as error:
        raise Unreadable(name, error.lineno, f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(name, reader.line(reader.at), f"not JSON: {str(error)[:200]}") from None
    return Parsed(name, value, reader.lines)


@dataclass(slots=True)
class _Reader:
    """A JSON reader that notes the lines of the outer parts."""

    text: str
    at: int = 0
    """Where the value begins that is being read."""
    lines: dict[Place, int] = field(default_factory=dict)
    decoder: json.JSONDecoder = field(
        default_factory=lambda: json.JSONDecoder(object_pairs_hook=object_of, parse_constant=no_constant)
    )
    seen: tuple[int, int] = (0, 1)
    """A position and its line: the last one that was asked for."""

    def line(self, at: int) -> int:
        """The line of a position. Positions must be passed in ascending order."""
        before, line = self.seen
        line += self.text.count("\n", before, at)
        self.seen = (at, line)
        return line

    def past_space(self, at: int) -> int:
        """The position after white space."""
        found = SPACE.match(self.text, at)
        return at if found is None else found.end()

    def value(self, at: int, place: Place, *, deep: int) -> tuple[Any, int]:
        """The value that begins at a position, and the position after it.

        It notes the lines of nested values down to `deep` levels.
        """
        self.at = at
        self.lines[place] = self.line(at)
        first = self.text[at : at + 1]
        if deep == 0 or first not in ("{", "["):
            return self.decoder.raw_decode(self.text, at)
        pairs: list[tuple[str | int, Any]] = []
        closing = {"{": "}", "[": "]"}[first]
        at = self.past_space(at + 1)
        while self.text[at : at + 1] != closing:
            if pairs:
                at = self._past(",", at)
            key: str | int = len(pairs)
            if first == "{":
                key, at = self._key(at)
            value, at = self.value(at, (*place, key), deep=deep - 1)
            pairs.append((key, value))
            at = self.past_space(at)
        return (object_of(pairs) if first == "{" else [value for _, value in pairs]), at + 1

    def _key(self, at: int) -> tuple[str, int]:
        if self.text[at : at + 1] != '"':
            raise json.JSONDecodeError("a member begins with its name in double quotes", self.text, at)
        key, at = self.decoder.raw_decode(self.text, at)
        return key, self._past(":", self.past_space(at))

    def _past(self, mark: str, at: int) -> int:
        if self.text[at : at + 1] != mark:
            raise json.JSONDecodeError(f"{mark!r} is missing", self.text, at)
        return self.past_space(at + 1)


# -- YAML: read with the line of each part, and written so that it is read back as the same value.
#
# Plain words are read by the core schema of YAML 1.2, so `on`, `no`, `17:30` and `2026-01-01` are text. What an older
# reader would take for something else than text is written in quotes. Aliases and merge keys (`<<`) are understood.

NODES_MAX: Final = 1_000_000
"""Parts of a file, counted as often as aliases repeat them: a few lines of aliases could name billions."""
DEPTH_MAX: Final = 100
_TOO_DEEP: Final = f"it is more than {DEPTH_MAX} levels deep"
MERGE: Final = "tag:yaml.org,2002:merge"
CORE: Final = (
    ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    (
        "float",
        re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"),
        list("-+.0123456789"),
    ),
    ("merge", re.compile(r"<<\Z"), ["<"]),
)  # fmt: skip
"""The words that are not text: the tag, its pattern, and the characters one begins with."""

_Fast: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class _Loader(_Fast):  # type: ignore[misc]
    """Parses YAML to nodes; `_Values` converts them to values."""

    yaml_implicit_resolvers: Final[dict[Any, Any]] = {}


class _Dumper(yaml.SafeDumper):
    """Writes only YAML that YAML 1.2 (core schema) and older readers read as the same value."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write an object that occurs twice twice, without an alias."""
        return True


for _tag, _pattern, _first in CORE:
    for _each in (_Loader, _Dumper):
        _each.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Older readers take some of the characters that are not printable for ends of lines.
    style = '"' if not text.replace("\n", "").isprintable() else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_of(value: Any) -> str:
    """A value as YAML; keys keep their order."""
    return yaml_text(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def read_yaml(text: str, name: str) -> Parsed:
    """The value of a file. Raises Unreadable."""
    try:
        _check_depth(text, name)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The scanner of PyYAML 6.0.4 has a limit of its own, which applies before this one.
        problem = _TOO_DEEP if "nesting depth" in (error.problem or "") else f"not YAML: {error.problem}"
        raise Unreadable(name, 1 if mark is None else mark.line + 1, problem) from None
    except yaml.YAMLError as error:  # characters that no YAML may hold
        raise Unreadable(name, 1, f"not YAML: {str(error).splitlines()[0]}") from None
    values = _Values(name)
    return Parsed(name, None if node is None else values.of(node, ()), values.lines)


def _check_depth(text: str, name: str) -> None:
    """Raise Unreadable if the nesting is too deep: the C library would crash the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            mark = event.start_mark
            raise Unreadable(name, 1 if mark is None else mark.line + 1, _TOO_DEEP)


@dataclass(slots=True)
class _Values:
    """Converts nodes to values."""

    name: str
    lines: dict[Place, int] = field(default_factory=dict)
    count: int = 0

    def of(self, node: yaml.Node, place: Place) -> Any:
        """The value of a node. Raises Unreadable."""
        self.count += 1
        if self.count > NODES_MAX:
            raise self._problem(node, f"it has more than {NODES_MAX:,} parts, aliases counted")
        if len(place) > DEPTH_MAX:
            raise self._problem(node, _TOO_DEEP)
        self.lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode) and node.tag.endswith(":map"):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode) and node.tag.endswith(":seq"):
            return [self.of(each, (*place, index)) for index, each in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        raise self._problem(node, f"a value of the kind {node.tag} is not understood")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == MERGE:
                for each in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    if not isinstance(each, yaml.MappingNode):
                        raise self._problem(key_node, "<< takes a mapping, or a list of mappings")
                    merged = self._mapping(each, (*place, "<<")) | merged
                continue
            key = self._scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else key_node
            if not isinstance(key, str):
                raise self._problem(key_node, "a key is text; put it in quotes")
            if key in found:
                raise self._problem(key_node, f"the key {key[:100]!r} is there twice")
            self.lines[(*place, key)] = key_node.start_mark.line + 1
            found[key] = self.of(value_node, (*place, key))
        return merged | found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return self._int(node, text)
            case "float" if "inf" not in text.lower() and "nan" not in text.lower():
                return float(text)
            case "float":
                raise self._problem(node, f"{text} is not a number of JSON")
        raise self._problem(node, f"a value of the kind {node.tag} is not understood")

    def _int(self, node: yaml.ScalarNode, text: str) -> int:
        try:
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        except ValueError:  # more digits than Python reads
            raise self._problem(node, "a number has too many digits") from None

    def _problem(self, node: yaml.Node, words: str) -> Unreadable:
        return Unreadable(self.name, node.start_mark.line + 1, words)
