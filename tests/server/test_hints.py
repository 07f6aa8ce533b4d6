"""What replies say of names that are unknown and of times without a zone: what may be meant, and how to write it."""

import pytest

from tests.server.conftest import HOME, Http

ORDER = {"function": "shop.order", "args": {"item": "x"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "at", "words"),
    [
        ("GET", "jobs?limt=5", None, "query.limt", "there is no such parameter; did you mean 'limit' or 'limit_key'?"),
        ("GET", "tables?qqqq=5", None, "query.qqqq", "there is no such parameter; this address takes "),
        ("GET", "status?limt=5", None, "query.limt", "there is no such parameter; this address takes none"),
        ("POST", "jobs", {"function": "shop.order", "arg": {}}, "body.arg", "no such member; did you mean 'args'?"),
        ("POST", "jobs", ORDER | {"retry": {"attempt": 5}}, "attempt", "no such member; did you mean 'attempts'?"),
        ("POST", "tokens", {"names": "t"}, "body.names", "no such member; did you mean 'name'?"),
        ("POST", "jobs", ORDER | {"at": "2027-01-01T00:00:00"}, "body.at", "add one: 2027-01-01T00:00:00+01:00"),
        ("GET", "audit-log?start=2027-01-01T00:00:00", None, "query.start", "add one: 2027-01-01T00:00:00+01:00"),
    ],
)
def test_a_name_or_a_time_that_is_wrong_is_refused_with_a_hint(
    http: Http, method: str, path: str, body: object, at: str, words: str
) -> None:
    found = http.problem(422, method, f"{HOME}/{path}", **({} if body is None else {"json": body}))["errors"]
    [message] = {each["message"] for each in found if each["at"].endswith(at)}
    assert words in message
