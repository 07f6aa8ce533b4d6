"""`ctx.db` beside a plain dict: random histories read alike in both, on both databases.

What a mutation wrote and the database has not seen, what it wrote down half-way, what an inner mutation took back, and
what is stored: wherever a document is, each range, order, page and iteration answers what sorting a dict answers.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evertick import UNSET, App, MutationCtx, QueryCtx
from evertick.app.documents.queries import DocumentQuery, IndexRange
from evertick.documents import Document
from tests.app.conftest import OpenApp

pytestmark = pytest.mark.sql

INDEXES = {"by_a": ["a"], "by_ab": ["a", "b"], "by_path": ["o.x", "a"]}
TABLES = ("t", "t_e1", "t_X", "t_u")
MOMENT = datetime(9000, 1, 1, tzinfo=UTC)
VALUES: list[Any] = [
    UNSET, None, -1, 0, -0.0, 0.5, 1, 1.0, 2**53, 2**53 + 1, float("inf"), False, True, "", "a", "a\x00", "ab", "é",
    "\uffff", "\U0001f600", b"", b"\x00", b"\x00\xff", b"a", MOMENT, MOMENT + timedelta(microseconds=1),
    [], [None], [1, "a"], [[1]], {}, {"k": 1}, {"k": 2, "j": 0},
]  # fmt: skip
KINDS: list[Any] = [bool, int | float, str, bytes, datetime, list, dict]


def place(value: Any) -> tuple[Any, ...]:
    """Where a value stands among all others."""
    if value is UNSET:
        return (0,)
    if value is None:
        return (1,)
    kind = next(number for number, kind in enumerate(KINDS) if isinstance(value, kind))
    rank = (3, 2, 4, 5, 6, 7, 8)[kind]
    if isinstance(value, list):
        return (rank, tuple(place(item) for item in value))
    if isinstance(value, dict):
        return (rank, tuple((place(key), place(item)) for key, item in sorted(value.items())))
    return (rank, value)


def field(document: Document, path: str) -> Any:
    """What a document has at a path."""
    value: Any = document
    for step in path.split("."):
        value = value.get(step, UNSET) if isinstance(value, dict) else UNSET
    return value


def same(left: list[Document], right: list[Document]) -> bool:
    """Equal, and of the same kinds: to Python True is 1 and 1.0 is 1."""
    return [sorted(map(repr, d.items())) for d in left] == [sorted(map(repr, d.items())) for d in right]


class Failed(Exception):
    """An inner mutation that shall be undone."""


class History:
    """A random history, and the dict that says what is true."""

    def __init__(self, app: App, seed: int) -> None:
        self.app = app
        self.chance = random.Random(seed)
        self.documents: dict[str, Document] = {}
        self.gone = ["t_" + "0" * 28]
        for table in TABLES:
            app.table(table, indexes=INDEXES)

        @app.mutation(timeout=60)
        def change(ctx: MutationCtx, count: int) -> None:
            before = dict(self.documents)
            try:
                self.steps(ctx, count, depth=0)
                if self.chance.random() < 0.15:
                    raise Failed
            except BaseException:
                self.documents = before
                raise

        @app.query(timeout=60)
        def look(ctx: QueryCtx) -> None:
            for _ in range(4):
                self.compare(ctx)

        @app.mutation(internal=True)
        def inner(ctx: MutationCtx, count: int, depth: int) -> None:
            before = dict(self.documents)
            self.steps(ctx, count, depth=depth)
            if self.chance.random() < 0.5:
                self.documents = before
                raise Failed

        self.change, self.look, self.inner = change, look, inner

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            try:
                self.app.call(self.change, self.chance.choice([1, 5, 20, 60]))
            except Failed:
                pass
            self.app.call(self.look)
        self.pages_of_transactions()

    def steps(self, ctx: MutationCtx, count: int, depth: int) -> None:
        for _ in range(count):
            draw = self.chance.random()
            if draw < 0.35:
                self.insert(ctx)
            elif draw < 0.65:
                self.rewrite(ctx)
            elif draw < 0.75:
                self.delete(ctx)
            elif draw < 0.80:
                ctx.db.system.query("_scheduled_functions").first()  # the database itself sees everything now
            elif draw < 0.84 and depth < 3:
                try:
                    ctx.run_mutation(self.inner, self.chance.randint(0, 8), depth + 1)
                except Failed:
                    continue
            else:
                self.compare(ctx)

    def fields(self) -> dict[str, Any]:
        chance = self.chance
        fields = {name: chance.choice(VALUES) for name in ("a", "b", "c") if chance.random() < 0.8}
        if chance.random() < 0.4:
            inside = chance.choice(VALUES)
            fields["o"] = chance.choice([{} if inside is UNSET else {"x": inside}, 5, [1]])
        return fields

    def insert(self, ctx: MutationCtx) -> None:
        fields = self.fields()
        document_id = ctx.db.insert(self.chance.choice(TABLES), fields)
        self.learn(ctx, document_id, fields)

    def rewrite(self, ctx: MutationCtx) -> None:
        if self.documents:
            document_id = self.chance.choice(list(self.documents))
            fields = self.fields()
            if self.chance.random() < 0.5:
                ctx.db.patch(document_id, fields)
                fields = {**self.documents[document_id], **fields}
            else:
                ctx.db.replace(document_id, fields)
            self.learn(ctx, document_id, fields)

    def learn(self, ctx: MutationCtx, document_id: str, fields: dict[str, Any]) -> None:
        found = ctx.db.get(document_id)
        assert found is not None
        kept = {name: value for name, value in fields.items() if value is not UNSET}
        expected = {**kept, "_id": document_id, "_creation_time": found["_creation_time"]}
        if document_id in self.documents:
            assert expected["_creation_time"] == self.documents[document_id]["_creation_time"]
        assert same([found], [expected])
        self.documents[document_id] = expected

    def delete(self, ctx: MutationCtx) -> None:
        if self.documents:
            document_id = self.chance.choice(list(self.documents))
            ctx.db.delete(document_id)
            del self.documents[document_id]
            self.gone.append(document_id)

    def compare(self, ctx: QueryCtx) -> None:
        """One question, to both."""
        chance = self.chance
        known = chance.choice([*self.gone, *self.documents])
        assert same([ctx.db.get(known) or {}], [self.documents.get(known) or {}])
        build, expected = self.question()
        count = chance.choice([0, 1, 2, 7, 300, 5_000])
        assert same(build(ctx).take(count), expected[:count])
        assert same([build(ctx).first() or {}], [*expected[:1], {}][:1])
        assert same(list(build(ctx)), expected)
        size = chance.choice([1, 3, 10, 300])
        found, cursor, is_done = [], None, len(expected) // size > 40
        while not is_done:
            page = build(ctx).paginate(num_items=size, cursor=cursor)
            assert len(page.page) == size or page.is_done
            found += page.page
            cursor, is_done = page.continue_cursor, page.is_done
            assert is_done == (len(found) == len(expected))
        assert cursor is None or same(found, expected)

    def question(self) -> tuple[Callable[[QueryCtx], DocumentQuery], list[Document]]:
        """A query, and what it should answer."""
        chance = self.chance
        table, index = chance.choice(TABLES), chance.choice([None, "by_creation_time", "by_id", *INDEXES])
        expected = [self.documents[i] for i in sorted(self.documents) if i.rpartition("_")[0] == table]
        calls: list[tuple[str, str, Any]] = []
        if index is not None:
            fields = INDEXES.get(index, [])
            expected.sort(key=lambda d: [place(field(d, name)) for name in fields])
            last = "_id" if index == "by_id" else "_creation_time"
            calls, expected = self.ranged([*fields, last], expected)
        if descending := chance.random() < 0.5:
            expected = expected[::-1]
        if filtered := chance.random() < 0.3:
            expected = [d for d in expected if "c" in d]

        def build(ctx: QueryCtx) -> DocumentQuery:
            query = ctx.db.query(table)
            if index is not None:
                query = query.with_index(index, lambda r: self.apply(r, calls))
            query = query.order("desc") if descending else query
            return query.filter(lambda d: "c" in d) if filtered else query

        return build, expected

    @staticmethod
    def apply(chosen: IndexRange, calls: list[tuple[str, str, Any]]) -> IndexRange:
        for verb, name, value in calls:
            chosen = getattr(chosen, verb)(name, value)
        return chosen

    def ranged(self, fields: list[str], documents: list[Document]) -> tuple[list[Any], list[Document]]:
        """A range along these fields, and the documents it holds."""
        chance, calls = self.chance, []
        for name in fields:
            values = [field(d, name) for d in documents]
            if name.startswith("_") and not self.documents:
                break
            if name.startswith("_"):
                values = [d[name] for d in self.documents.values()]
            elif not values or chance.random() < 0.2:
                values = VALUES
            if chance.random() < 0.5:
                value = chance.choice(values)
                calls.append(("eq", name, value))
                documents = [d for d in documents if place(field(d, name)) == place(value)]
                continue
            bounds = [chance.choice(["gt", "gte"]), chance.choice(["lt", "lte"])]
            chance.shuffle(bounds)
            for verb in bounds[: chance.randint(0, 2)]:
                value = chance.choice(values)
                calls.append((verb, name, value))
                documents = [d for d in documents if holds(verb, place(field(d, name)), place(value))]
            break
        return calls, documents

    def pages_of_transactions(self) -> None:
        """Pages, each in a transaction of its own, while others write: each goes on behind the last one's last."""
        build, _ = self.question()
        stays = {d["_id"] for d in self.ask(build)}
        seen: list[str] = []
        cursor, is_done = None, False
        while not is_done and len(seen) < 1_000:
            page = self.ask_page(build, cursor)
            seen += [d["_id"] for d in page.page]
            cursor, is_done = page.continue_cursor, page.is_done
            if self.documents and self.chance.random() < 0.7:
                victim = self.chance.choice(list(self.documents))
                self.within(lambda ctx, i=victim: ctx.db.delete(i))  # type: ignore[misc]
                del self.documents[victim]
                stays.discard(victim)
        assert len(seen) == len(set(seen))
        assert stays <= set(seen)

    def ask(self, build: Callable[[QueryCtx], DocumentQuery]) -> list[Document]:
        answer: list[Document] = self.within(lambda ctx: build(ctx).collect())
        return answer

    def ask_page(self, build: Callable[[QueryCtx], DocumentQuery], cursor: str | None) -> Any:
        return self.within(lambda ctx: build(ctx).paginate(num_items=3, cursor=cursor))

    def within(self, work: Callable[[MutationCtx], Any]) -> Any:
        """A transaction of one step."""
        answers: list[Any] = []
        self.steps, kept = lambda ctx, count, depth: answers.append(work(ctx)), self.steps  # type: ignore[method-assign]
        try:
            while True:
                try:
                    self.app.call(self.change, 0)
                    return answers[-1]
                except Failed:
                    continue
        finally:
            self.steps = kept  # type: ignore[method-assign]


def holds(verb: str, left: Any, right: Any) -> bool:
    return {"gt": left > right, "gte": left >= right, "lt": left < right, "lte": left <= right}[verb]  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
def test_a_random_history_reads_as_a_sorted_dict_would(open_app: OpenApp, seed: int) -> None:
    History(open_app(), seed).run(transactions=8)
