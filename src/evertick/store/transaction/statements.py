"""Statements: the SQL files, read once.

There is a file for each subject, `sql/<subject>.sql`. A statement begins with the line `-- name: <name>` and ends
before the next such line. `-- name: <name> (postgres)` is for one database, where the two must differ; its comment says
why. Parameters are written `:name`; for PostgreSQL's driver they become `%(name)s`.

A list is one text for both directions, `<name> asc` and `<name> desc`. If it contains `{by}`, it also exists for each
column that an index begins with, `<name> by name asc`, and for the indexes of runs and of failed jobs that were not
retried, `<name> of runs asc` and `<name> unretried asc`. `{id}` is the last column of such an index. On PostgreSQL that
is an expression: otherwise it would often read the primary key backwards in the hope to meet rows of the list;
`{schedule_id}` likewise. `{time}` is a time of schedules, `<name> next asc`. A text that begins with `-- part: <name>`
is no statement but replaces `{<name>}` in others: `{narrowed}` are the filters that all lists share. `{running}` is the
table of jobs, read by running jobs.

`together` makes one statement of several lists. Each has its own value of the parameters in `OF_EACH`.

Small differences between the databases are words in braces: `in {list :ids}` and `in {numbers :ids}` are the members of
a JSON list, `{each :names}` is a table with the one column `each` of them, `{has text :part}` tests whether a text
contains a part, which is in lower case (with `exactly`: as it is), `{for update}` locks rows (SQLite has one writer and
needs no lock), `{indexed by name}` sets SQLite's index, `{json list}` is the function that makes a JSON list of its
arguments, `{by bytes}` compares a text by bytes, as SQLite always does, `{is root}` tests whether no other run has
called a run. `{soonest waiting :now :limit: name}` are the names of the first jobs of a stage that are due by an
instant, of all tenants, `{json of bucket, runs}` collects pairs as a JSON object, `{pairs of late}` reads one, and
`{kept counts}` are the counts of jobs with the changes since they were summed. The part of a union between `{for state
in failed, canceled}` and `{then union all}` is repeated for each of the words. `tenants_with` becomes one statement for
each kind of rows that tenants can have. `{rows: id text, args text}` are the columns and the rows of an insert of many
rows (`bytea` is transferred as hexadecimal digits).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from evertick.store.location import placed

_HEADING: Final = re.compile(r"^-- (name|part): (\w+)(?: \((\w+)\))?\n", re.MULTILINE)
_PART: Final = re.compile(r"\{(\w[\w ]*)\}")
_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")
_DIRECTIONS: Final = {"asc": (">", "<="), "desc": ("<", ">=")}
_HEAD: Final = ('"type": "', '", "message": "', '", "traceback": "')
"""The texts before an error's type, its message and its traceback. Quotes inside of these are escaped, so the text can
be cut here, which works also if PostgreSQL cannot decode it."""
_ERRORS: Final = {
    "sqlite": "replace(substr(error, instr(error, '{0}') + {3}, "
    "instr(error || '{2}', '{2}') - instr(error, '{0}') - {3}), '{1}', ': ')".format(*_HEAD, len(_HEAD[0])),
    "postgres": "replace(split_part(split_part(error, '{2}', 1), '{0}', 2), '{1}', ': ')".format(*_HEAD),
}
"""An error's type and message, as they are shown, with JSON's escapes."""
_OWN: Final = {
    "sqlite": {
        "id": "id",
        "schedule_id": "schedule_id",
        "running": "jobs indexed by jobs_running",
        "kept counts": "job_counts",
        "error": _ERRORS["sqlite"],
        "says": f"instr(lower({_ERRORS['sqlite']}), :error) > 0",
    },
    "postgres": {
        "id": "(id || '')",
        "schedule_id": "(schedule_id || '')",
        "running": "jobs",
        "kept counts": "(select tenant, name, unfinished, success, failed, canceled, retried from job_counts "
        "union all select tenant, name, unfinished, success, failed, canceled, retried from job_count_changes) as kept",
        "error": _ERRORS["postgres"],
        "says": f"""position(:error in lower({_ERRORS["postgres"]} collate "C")) > 0""",
    },
}
"""Parts of lists that differ between the databases."""
_KIND: Final = '", "kind": "'
_IS_ROOT: Final = "coalesce(substr(on_complete, {} + 12, 5), '') <> 'step\"'"
"""Whether no other run has called a run: as in the indexes of such runs, so that they are used."""
_WORDS: Final = {
    "sqlite": (
        (re.compile(r"\{(?:list|numbers) (:\w+)\}"), r"(select value from json_each(\1))"),
        (re.compile(r"\{each (:\w+)\}"), r"(select value as each from json_each(\1))"),
        (re.compile(r"\{has (\w+) (:\w+)\}"), r"instr(lower(\1), \2) > 0"),
        (re.compile(r"\{has exactly (\w+) (:\w+)\}"), r"instr(\1, \2) > 0"),
        (re.compile(r"\{for update[^}]*\}"), ""),
        (re.compile(r"\{(indexed by \w+)\}"), r"\1"),
        (re.compile(r"\{json list\}"), "json_array"),
        (re.compile(r"\{json of (\w+, \w+)\}"), r"json_group_object(\1)"),
        (re.compile(r"\{pairs of (\w+)\}"), r"json_each(coalesce(\1, '{}'))"),
        (re.compile(r" \{by bytes\}"), ""),
        (re.compile(r"\{is root\}"), _IS_ROOT.format(f"instr(on_complete, '{_KIND}')")),
    ),
    "postgres": (
        (re.compile(r"\bin \{list (:\w+)\}"), r"= any (array(select json_array_elements_text(\1::json)))"),
        (re.compile(r"\bin \{numbers (:\w+)\}"), r"= any (array(select json_array_elements_text(\1::json)::bigint))"),
        (re.compile(r"\{each (:\w+)\}"), r"(select value as each from json_array_elements_text(\1::json))"),
        (re.compile(r"\{has (\w+) (:\w+)\}"), r"""position(\2 in lower(\1 collate "C")) > 0"""),
        (re.compile(r"\{has exactly (\w+) (:\w+)\}"), r"position(\2 in \1) > 0"),
        (re.compile(r"\{(for update[^}]*)\}"), r"\1"),
        (re.compile(r"\{indexed by \w+\}"), ""),
        (re.compile(r"\{json list\}"), "json_build_array"),
        (re.compile(r"\{json of (\w+, \w+)\}"), r"json_object_agg(\1)::text"),
        (re.compile(r"\{pairs of (\w+)\}"), r"json_each_text(coalesce(\1, '{}')::json)"),
        (re.compile(r"\{by bytes\}"), 'collate "C"'),
        (re.compile(r"\{is root\}"), _IS_ROOT.format(f"position('{_KIND}' in on_complete)")),
    ),
}
"""Words in braces in any statement, and their texts for each database."""
_SOONEST: Final = (
    re.compile(r"\{soonest (\w+) (:\w+) (:\w+): ([\w, ]+)\}"),
    r"(select tenant, \4 from jobs where state = 'pending' and stage = '\1' and due_at <= \2 "
    r"order by due_at, id limit \3)",
)
"""The first jobs of a stage that are due by an instant, of all tenants."""
_INSERTED: Final = re.compile(r"\{rows: ([^}]+)\}")
"""The rows of an insert: their columns, each with its type."""
_REPEATED: Final = re.compile(r" *\{for ([\w ]+) in ([\w, ]+)\}\n(.*?)\n *\{then (union|union all)\}", re.DOTALL)
"""Parts of a union that differ by words."""
_ROWS: Final = {
    "documents": "documents where",
    "entries": "index_entries where",
    "jobs": "jobs {indexed by jobs_by_name} where",
    "failures": "history where state = 'failed' and",
    "schedules": "schedules where",
}
"""The kinds of rows for `tenants_with`."""
_BY: Final = {
    "": "",
    " by name": "and name = :name",
    " by schedule": "and schedule_id = :schedule_id",
    " by parent": "and parent_id = :parent_id",
    " by key": "and key = :key",
    " of runs": "and kind = 'workflow'",
    " of roots": "and kind = 'workflow' and {is root}",
}
_BY_OF_HISTORY: Final = {**_BY, " unretried": "and state = 'failed' and retried_as is null"}

_TIMES: Final = {"next": "coalesce(next_at, 9223372036854775807)", "last": "coalesce(last_at, -1)"}
"""The times by which schedules are listed, as in their indexes."""


OF_EACH: Final = ("state", "skip")
"""Parameters that have a separate value for each of several lists read together."""
_AND: Final = " and "


def together(names: Sequence[str]) -> str:
    """The name of the statement that returns the rows of several, unordered."""
    return _AND.join(names)


def of_each(parameter: str, number: int) -> str:
    """The name of a parameter in `OF_EACH` for the part with this number of a statement of several."""
    return f"{parameter}_{'abcdefgh'[number]}"


class Statements(dict[str, str]):
    """Statements by name. A text is made for its database when it is first needed: most programs use few."""

    def __init__(self, texts: Mapping[str, str], dialect: str, place: str) -> None:
        super().__init__()
        self._texts = texts
        self._dialect = dialect
        self._place = place

    def __missing__(self, name: str) -> str:
        parts = name.split(_AND)
        raw = self._texts[name] if len(parts) == 1 else _union([self._texts[part] for part in parts])
        text = self[name] = placed(_for_driver(raw, self._dialect), self._dialect, self._place)
        return text


@cache
def load_statements(dialect: str, place: str = "") -> Statements:
    """The statements of `dialect` ("sqlite" or "postgres"), on the tables at a place."""
    return Statements(_texts(dialect), dialect, place)


def statement_names(dialect: str) -> frozenset[str]:
    """The names of all statements of a dialect."""
    return frozenset(_texts(dialect))


@cache
def _texts(dialect: str) -> dict[str, str]:
    """The texts of the files for a dialect, with their parts filled in."""
    texts: dict[str, str] = {}
    parts = dict(_OWN[dialect])
    for entry in (files("evertick.store") / "sql").iterdir():
        _, *found = _HEADING.split(entry.read_text(encoding="utf-8"))
        for what, name, written_for, text in zip(*(iter(found),) * 4, strict=True):
            if written_for not in (None, dialect):
                continue
            if what == "part":
                parts[name] = _COMMENT.sub("", text).rstrip()
            else:
                texts[name] = _REPEATED.sub(_repeated, text)

    def with_parts(text: str) -> str:
        return _PART.sub(lambda found: with_parts(parts[found[1]]) if found[1] in parts else found[0], text)

    return {each: text for name, plain in texts.items() for each, text in _filled_in(name, with_parts(plain))}


def _repeated(found: re.Match[str]) -> str:
    """The parts of a union, one for each of the words that are listed."""
    names, words, part, joint = found.groups()
    parts = []
    for each in words.split(", "):
        parts.append(part)
        for name, word in zip(names.split(), each.split(), strict=True):
            parts[-1] = parts[-1].replace(f"{{{name}}}", word)
    return f"\n{joint}\n".join(parts)


def _filled_in(name: str, text: str) -> Iterator[tuple[str, str]]:
    """A statement, or all statements of a list's text."""
    if "{rows}" in text:
        for kind, rows in _ROWS.items():
            yield f"{name} {kind}", text.replace("{rows}", rows)
        return
    if "{time}" in text:
        for time, column in _TIMES.items():
            yield from _filled_in(f"{name} {time}", text.replace("{time}", column))
        return
    if "{order}" not in text:
        yield name, text
        return
    begins = _BY_OF_HISTORY if "from history" in text else _BY
    for by, condition in begins.items() if "{by}" in text else [("", "")]:
        for order, (beyond, within) in _DIRECTIONS.items():
            filled = text.replace("{beyond}", beyond).replace("{within}", within).replace("{order}", order)
            yield f"{name}{by} {order}", filled.replace("{by}", condition)


def _inserted(dialect: str, declared: str) -> str:
    """The columns and rows of an insert. SQLite runs it for each row; PostgreSQL takes a JSON list of all of them."""
    columns = dict(column.split() for column in declared.split(","))
    names = ", ".join(columns)
    if dialect == "sqlite":
        return f"({names})\nvalues ({', '.join('?' * len(columns))})"
    read = [f"decode({name}, 'hex')" if kind == "bytea" else name for name, kind in columns.items()]
    record = ", ".join(f"{name} {'text' if kind == 'bytea' else kind}" for name, kind in columns.items())
    return f"({names})\nselect {', '.join(read)}\n  from json_to_recordset(:rows::json) as r ({record})"


def _union(texts: Sequence[str]) -> str:
    """The rows of several statements. Each keeps its limit, and its plan."""
    parts = []
    for number, text in enumerate(texts):
        renamed = _COMMENT.sub("", text).strip()
        for parameter in OF_EACH:
            renamed = re.sub(rf"(?<![:\w]):{parameter}\b", f":{of_each(parameter, number)}", renamed)
        parts.append(f"select * from ({renamed}) as part_{number}")  # noqa: S608 - texts of files
    return "\nunion all\n".join(parts)


def _for_driver(text: str, dialect: str) -> str:
    bare = _COMMENT.sub("", text)
    if "{" in bare:
        bare = _INSERTED.sub(lambda found: _inserted(dialect, found[1]), bare)
        for word, said in (_SOONEST, *_WORDS[dialect]):
            bare = word.sub(said, bare)
    bare = bare.strip()
    if dialect == "postgres":
        return _PARAMETER.sub(r"%(\1)s", bare.replace("%", "%%"))
    return bare
