"""Commands against a server: which one is meant, with which token, and `evertick api`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from evertick import App, MutationCtx
from evertick.cli.core.connections import Server, config_folder
from tests.cli.desk import Command, Ended
from tests.server.serving import serving


@dataclass
class Remote:
    """An app that is served, and commands against the server."""

    app: App
    url: str
    token: str
    command: Command

    def __call__(self, *words: str) -> Ended:
        return self.command(*words, "--url", self.url)


@pytest.fixture
def remote(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Remote]:
    """A shop, served; EVERTICK_TOKEN may do everything."""
    app = App("shop")

    @app.mutation(name="shop.bill")
    def bill(ctx: MutationCtx, n: int = 1) -> int:
        return n

    app.open()
    token = app.tokens.create("root", scope="admin").secret
    monkeypatch.setenv("EVERTICK_TOKEN", token)
    monkeypatch.delenv("EVERTICK_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with serving(app) as url:
        yield Remote(app, url, token, command)
    app.close()


def token_file(path: Path, text: str, mode: int = 0o600) -> Path:
    """A file with a token."""
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


def profiles(text: str) -> None:
    """The user's profiles."""
    config_folder().mkdir(parents=True, exist_ok=True)
    (config_folder() / "profiles.toml").write_text(text)


def test_requests_are_sent_as_they_are(remote: Remote) -> None:
    assert remote("api", "GET", "/health").json == {"ok": True}
    made = remote("api", "POST", "jobs", "function=shop.bill", 'args={"n": 2}', "after=1h", "--tenant", "acme").json
    found = remote("api", "get", f"jobs/{made['id']}", "--tenant", "acme").json
    assert (found["args"], found["state"], found["tenant"]) == ({"n": 2}, "pending", "acme")
    listed = remote("api", "GET", "jobs", "state=pending", "state=failed", "limit=1", "--tenant", "acme").json
    assert [each["id"] for each in listed["jobs"]] == [made["id"]]
    assert remote("api", "GET", "jobs").json == {"jobs": [], "cursor": None}


def test_the_address_of_a_page_is_not_that_of_a_server(command: Command) -> None:
    for place, alone in (
        ("http://localhost:4731/t/default", "http://localhost:4731"),
        ("https://example.org/jobs/t/acme/schedules/daily?tab=runs", "https://example.org/jobs"),
    ):
        done = command("job", "list", "--url", place)
        assert done.code == 2
        assert done.err.endswith(f"the server's address alone, not that of a page of its dashboard: {alone}\n")


def test_an_unknown_method_is_refused_by_its_name(command: Command) -> None:
    assert "Invalid value for 'METHOD': 'FOO' is not one of 'get'," in command("api", "FOO", "jobs").err


def test_a_body_may_be_given_whole_and_sent_once(remote: Remote) -> None:
    body = '{"function": "shop.bill", "args": {}, "after": "1h"}'
    words = ("api", "POST", "jobs", "--json", body, "--idempotency-key", "k")
    assert remote(*words).json == remote(*words).json
    Path("body.json").write_text('{"id": "s", "when": "0 9 * * *", "function": "shop.bill", "args": {}}')
    assert remote("api", "POST", "schedules", "--file", "body.json").json["version"] == 1
    assert remote("api", "PATCH", "schedules/s", "note=new", "--if-version", "1").json["version"] == 2
    assert remote("api", "PATCH", "schedules/s", "note=newer", "--if-version", "1").code == 5
    assert remote("api", "DELETE", "schedules/s").out == ""
    assert remote("api", "GET", "/metrics").out.startswith("# HELP")


def test_an_error_of_the_server_is_a_line_and_an_exit_code(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*words: str) -> tuple[int, str]:
        done = remote(*words)
        assert done.out == ""
        assert done.err.count("\n") == 1
        return done.code, done.err

    assert ended("api", "GET", "schedules/none")[0] == 3
    assert ended("api", "POST", "jobs", "function=shop.none", "args={}")[0] == 3
    assert ended("api", "POST", "jobs", "nothing=1")[0] == 2
    read = remote.app.tokens.create("reader", scope="read").secret
    code, said = ended("api", "POST", "jobs", "function=shop.bill", "args={}", "--token", read)
    assert code == 4
    assert "scope" in said
    assert ended("api", "GET", "jobs", "--token", "evt_wrong")[0] == 4
    monkeypatch.delenv("EVERTICK_TOKEN")
    assert ended("api", "GET", "jobs")[0] == 4
    assert remote.command("api", "GET", "/health", "--url", "http://127.0.0.1:1").code == 7


def test_a_profile_names_the_server_the_tenant_and_the_token(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles(f'[shop]\nurl = "{remote.url}"\ntenant = "acme"\ntoken_file = "shop.token"\n')
    token_file(config_folder() / "shop.token", remote.token)
    monkeypatch.delenv("EVERTICK_TOKEN")

    job_id = remote.app.tenant("acme").scheduler.run_after(60, "shop.bill")
    of_profile = remote.command("api", "GET", "jobs", "--profile", "shop").json
    assert [each["id"] for each in of_profile["jobs"]] == [job_id]
    assert remote.command("api", "GET", "jobs", "--profile", "shop", "--tenant", "b").json["jobs"] == []
    monkeypatch.setenv("EVERTICK_PROFILE", "shop")
    assert remote.command("api", "GET", "jobs").json == of_profile
    monkeypatch.setenv("EVERTICK_TOKEN", "evt_other")
    assert remote.command("api", "GET", "jobs").code == 4


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_token_that_others_may_read_is_refused(remote: Remote, tmp_path: Path) -> None:
    open_to_all = token_file(tmp_path / "token", remote.token, 0o644)
    done = remote("api", "GET", "jobs", "--token-file", str(open_to_all))
    assert done.code == 2
    assert f"chmod 600 {open_to_all}" in done.err
    open_to_all.chmod(0o600)
    assert remote("api", "GET", "jobs", "--token-file", str(open_to_all)).code == 0


def test_a_token_is_in_no_message_and_no_repr(remote: Remote, tmp_path: Path) -> None:
    assert "evt_x" not in repr(Server(url="https://a.example", token="evt_x"))
    hostile = token_file(tmp_path / "token", "evt_x\nevt_y\x1b[31m")
    for words in (
        ("--url", remote.url, "--token", "evt_x y"),
        ("--url", remote.url, "--token", "evt_x"),
        ("--url", "http://127.0.0.1:1", "--token", "evt_x"),
        ("--url", "http://me:evt_x@127.0.0.1:1"),
        ("--url", remote.url, "--token-file", str(hostile)),
    ):
        done = remote.command("api", "GET", "jobs", *words)
        assert done.code in (2, 4, 7)
        assert "evt_x" not in done.out + done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("api", "GET", "jobs"), "which server?"),
        (("api", "GET", "jobs", "--url", "jobs.example.org"), "http://"),
        (("api", "GET", "jobs", "--profile", "none"), "no profile 'none'"),
        (("api", "GET", "jobs", "--profile", "bare"), "needs url"),
        (("api", "GET", "jobs", "--profile", "odd"), "there is no colour"),
        (("api", "GET", "jobs", "--profile", "shop", "--url", "http://a"), "two servers"),
        (("api", "GET", "jobs", "--url", "http://a", "--token", "t", "--token-file", "f"), "two tokens"),
        (("api", "GET", "jobs", "--url", "http://a", "--token-file", "none"), "No such file"),
        (("api", "GET", "jobs", "state"), "NAME=VALUE"),
        (("api", "GET", "jobs", "--json", "{}"), "a GET has no body"),
        (("api", "POST", "jobs", "--json", "{}", "a=1"), "a body or fields"),
        (("api", "POST", "jobs", "--json", "{"), "not JSON"),
        (("job", "list", "--url", "http://a", "--db", "sqlite:///a.db"), "give one of them"),
        (("job", "list", "--token", "t"), "name it with --url"),
    ],
)
def test_what_is_wrong_is_said(remote: Remote, words: tuple[str, ...], says: str) -> None:
    profiles('[shop]\nurl = "http://127.0.0.1:1"\n[bare]\ntenant = "a"\n[odd]\nurl = "http://a"\ncolour = "red"\n')
    done = remote.command(*words, *(("--url", remote.url) if words[-1] in ("state", "{}", "a=1", "{") else ()))
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    "words",
    [("migrate",), ("worker", "run"), ("serve",), ("dev",), ("backup", "a.db")],
)
def test_what_needs_the_database_says_so(remote: Remote, words: tuple[str, ...]) -> None:
    done = remote(*words)
    assert (done.code, done.out) == (2, "")
    assert f"`{' '.join(words[:1])}" in done.err
    assert "needs the database" in done.err


def test_profiles_that_are_no_toml_are_named(remote: Remote) -> None:
    profiles("[shop")
    done = remote.command("api", "GET", "jobs", "--profile", "shop")
    assert done.code == 2
    assert "profiles.toml cannot be read as TOML" in done.err


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['httpx2'] = None\n"
        "from evertick.cli.root import run\nsys.exit(run(['api', 'GET', 'jobs', '--url', 'http://127.0.0.1:1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'evertick[client]'" in done.stderr
