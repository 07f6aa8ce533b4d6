"""`evertick token`: made, listed, revoked and replaced."""

from collections.abc import Iterator

import pytest

from evertick import App
from tests.cli.desk import Command


@pytest.fixture
def shop(migrated_shop: None) -> Iterator[App]:
    """An app with its database."""
    app = App("shop")
    app.open()
    yield app
    app.close()


def test_a_token_is_made_listed_replaced_and_revoked(shop: App, command: Command) -> None:
    made = command("token", "create", "billing", "--scope", "edit", "--tenant", "acme", "-o", "json")
    assert made.json["secret"].startswith("evt_")
    assert "shown this once" in made.err
    assert (made.json["tenant"], made.json["scope"]) == ("acme", "edit")
    assert made.json["created_by"].startswith("user ")

    again = command("token", "rotate", made.json["id"], "-o", "json").json
    ended = command("token", "revoke", again["id"], "-o", "json").json
    assert ended["revoked_at"] is not None
    listed = command("token", "list", "--tenant", "acme", "-o", "json").json
    assert [each["id"] for each in listed] == [made.json["id"], again["id"]]
    assert made.json["secret"] not in str(listed)
    assert command("token", "list", "-o", "json").json == listed  # every token, whosever it is


def test_an_empty_list_says_so(shop: App, command: Command) -> None:
    assert command("token", "list", "-o", "table").err == "no tokens\n"
    assert command("token", "list", "-o", "table", "--tenant", "acme").err == "no tokens of the tenant acme\n"


def test_people_read_the_secret_first(shop: App, command: Command) -> None:
    done = command("token", "create", "me", "--expires", "never", "-o", "table")
    assert done.out.split()[0] == "secret"
    assert "expires_at" not in done.out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("create", "x", "--scope", "root"), 2, "root"),
        (("create", "x", "--expires", "soon"), 2, "soon"),
        (("create", "x", "--expires", "20y"), 2, "20y"),
        (("create", "x\ny"), 2, "printable"),
        (("create", "x", "--tenant", " "), 2, "tenant"),
        (("revoke", "none"), 3, "no token 'none'"),
        (("rotate", "none"), 3, "no token 'none'"),
        (("list", "--fields", "nope"), 2, "nope"),
    ],
)
def test_what_is_wrong_is_said(shop: App, command: Command, words: tuple[str, ...], code: int, says: str) -> None:
    done = command("token", *words)
    assert done.code == code, done.err
    assert says in done.err
