"""The house in figures: `python -m tools.house`.

Measures what makes a code base hard to find one's way in: long files and functions, long parameter lists, deep import
chains, import cycles, crowded folders. `tests/test_house.py` holds the limits.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "src" / "evertick"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
MANY_PARAMETERS = 6
FUNCTIONS_WITH_MANY_PARAMETERS_MAX = 25
PARAMETERS_MAX = 8
IMPORT_DEPTH_MAX = 16
FILES_IN_A_FOLDER_MAX = 20

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Function:
    """A function, where it stands, and how large it is. Its docstring and `self` do not count."""

    place: str
    lines: int
    parameters: int


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    names = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    return names


def functions() -> Iterator[Function]:
    """Every function and method."""
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, AnyFunction):
                yield Function(f"{name}:{node.name}", _lines(node), _parameters(node))


def _lines(node: AnyFunction) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def _parameters(node: AnyFunction) -> int:
    arguments = node.args
    names = [each.arg for each in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    return len([name for name in names if name not in ("self", "cls")])


def imports() -> Mapping[str, frozenset[str]]:
    """What each module imports when it is imported itself."""
    known = modules()
    found = {}
    for name, path in known.items():
        needed = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                needed |= inner & known.keys() or {node.module}
        found[name] = frozenset(needed & known.keys() - {name})
    return found


def deepest_chain() -> tuple[str, ...]:
    """The longest chain of imports, from the module that imports to the one that imports nothing.

    Raises ValueError if imports go in a circle.
    """
    graph = imports()
    under_way: list[str] = []

    @cache
    def chain(name: str) -> tuple[str, ...]:
        if name in under_way:
            raise ValueError(f"imports go in a circle: {' -> '.join([*under_way, name])}")
        under_way.append(name)
        longest = max((chain(each) for each in sorted(graph[name])), key=len, default=())
        under_way.pop()
        return (name, *longest)

    return max((chain(name) for name in graph), key=len)


def fullest_folder() -> tuple[str, int]:
    """The folder with the most modules, and how many those are."""
    counts: dict[str, int] = {}
    for path in modules().values():
        folder = str(path.parent.relative_to(HOUSE.parent))
        counts[folder] = counts.get(folder, 0) + 1
    return max(counts.items(), key=lambda item: item[1])


def main() -> int:
    """Print the figures."""
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    every = list(functions())
    longest = max(every, key=lambda each: each.lines)
    widest = max(every, key=lambda each: each.parameters)
    many = [each for each in every if each.parameters >= MANY_PARAMETERS]
    chain = deepest_chain()
    largest = max(lines, key=lambda name: lines[name])
    print(f"{len(lines)} files, {sum(lines.values()):,} lines; the longest is {largest} with {lines[largest]}")
    print(f"{len(every):,} functions; the longest is {longest.place} with {longest.lines} lines")
    print(
        f"{len(many)} functions with {MANY_PARAMETERS} or more parameters; most has {widest.place}: {widest.parameters}"
    )
    print(f"imports are {len(chain)} deep: {' -> '.join(chain)}")
    print("the fullest folder is {} with {} files".format(*fullest_folder()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
