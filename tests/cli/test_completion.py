"""What the shell completes: commands, ids, functions, policies and zones."""

import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evertick.cli.core.completing import cache
from tests.cli.desk import Command
from tests.cli.programs import COMMAND, DEADLINE_S, environment, evertick
from tests.cli.test_every_command import ids, shop, shop_file
from tests.server.serving import serving

__all__ = ["ids", "shop_file"]

pytestmark = pytest.mark.processes


def asked(line: str) -> dict[str, str]:
    """The variables by which bash asks for the last word of a line."""
    return {
        "_EVERTICK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)
    }  # fmt: skip


def offers(printed: str) -> list[str]:
    """The words among what was printed."""
    return [text.partition(",")[2] for text in printed.splitlines() if text]


def completed(folder: Path, line: str, **more: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    done = evertick(folder, **asked(line), **more)
    assert done.err == ""
    return offers(done.out)


def test_the_program_completes_as_the_shell_starts_it(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND, cwd=tmp_path, env=environment(**asked("evertick sta")), capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip

    assert (offers(done.stdout), done.stderr) == (["status"], "")


@pytest.fixture
def used(folder: Path) -> tuple[Path, str]:
    """A folder with a database, and the id of a job in it."""
    job_id = evertick(folder, "run", "app.wait", "seconds=1", "--after", "1h").out.strip()
    made = evertick(folder, "schedule", "create", "nightly", "--cron", "0 3 * * *", "--function", "app.fail")
    assert made.code == 0
    return folder, job_id


def test_ids_and_functions_come_from_the_database(used: tuple[Path, str]) -> None:
    folder, job_id = used

    assert completed(folder, "evertick job get ") == [job_id]
    assert completed(folder, f"evertick job cancel {job_id[:8]}") == [job_id]
    assert completed(folder, "evertick job retry x") == []
    assert completed(folder, "evertick schedule describe ni") == ["nightly"]
    assert completed(folder, "evertick schedule pause --sid ") == ["nightly"]
    assert completed(folder, "evertick job list --function ") == ["app.wait"]


def test_runs_are_completed_by_their_ids_and_keys_and_workflows_by_name(folder: Path) -> None:
    code = (
        "from evertick import App, Step\napp = App('chat')\n\n@app.workflow\nasync def flow(step: Step) -> None: ...\n"
    )
    (folder / "app.py").write_text(code)
    run_id = evertick(folder, "workflow", "start", "app.flow", "--id", "w1").out.strip()

    assert completed(folder, "evertick workflow get ") == ["w1", run_id]
    assert completed(folder, f"evertick workflow cancel {run_id[:8]}") == [run_id]
    assert completed(folder, "evertick workflow list --workflow ") == ["app.flow"]
    assert completed(folder, "evertick workflow start app.") == ["app.flow"]


def test_policies_zones_and_commands_need_no_database(tmp_path: Path) -> None:
    assert completed(tmp_path, "evertick schedule create x --overlap-policy Buffer") == ["BufferOne", "BufferAll"]
    assert completed(tmp_path, "evertick schedule create x --catch-up l") == ["latest"]
    assert "Europe/Berlin" in completed(tmp_path, "evertick schedule create x --tz Europe/Be")
    assert completed(tmp_path, "evertick worker ") == ["run", "list"]
    assert completed(tmp_path, "evertick sta") == ["status"]


def test_where_nothing_can_be_read_nothing_is_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "evertick job get ") == []
    assert completed(tmp_path, "evertick schedule describe --db sqlite:///nope.db ") == []


def test_names_in_groups_are_of_their_kind(ids: dict[str, str], tmp_path: Path) -> None:
    assert completed(tmp_path, "evertick cron get ") == ["c"]
    assert completed(tmp_path, "evertick tenant get a") == ["acme"]
    assert completed(tmp_path, "evertick pool get ") == ["calls", "default", "scripts"]
    assert completed(tmp_path, "evertick backfill get s ") == [ids["BACKFILL"]]
    assert completed(tmp_path, "evertick workflow type get ") == ["shop.flow"]


# -- a server


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Where caches and profiles are, and a token that may do everything."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def served(ids: dict[str, str], variables: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of a server, which a profile names, too."""
    app = shop()
    app.open()
    secret = app.tokens.create("root", scope="admin").secret
    variables["EVERTICK_TOKEN"] = secret
    with serving(app) as url:
        profiles = tmp_path / "config" / "evertick" / "profiles.toml"
        profiles.parent.mkdir(parents=True)
        profiles.write_text(f'[production]\nurl = "{url}"\n')
        yield url
    app.close()


def test_ids_and_names_come_from_the_server_that_the_command_is_for(
    ids: dict[str, str], served: str, variables: dict[str, str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def offered(line: str) -> list[str]:
        return completed(elsewhere, line, **variables)

    assert ids["PENDING"] in offered(f"evertick job get --url {served} job_")
    assert offered("evertick schedule describe --profile production ") == ["c", "s"]
    assert offered("evertick schedule describe --profile ") == ["production"]
    assert offered(f"evertick cron get --url {served} ") == ["c"]
    assert offered(f"evertick job list --url {served} --function shop.b") == ["shop.bill"]
    assert offered(f"evertick workflow start --url {served} ") == ["shop.flow", "shop.old"]
    assert ids["RUN"] in offered(f"evertick workflow get --url {served} ")
    assert offered(f"evertick pool get --url {served} ") == ["calls", "default", "scripts"]
    assert offered(f"evertick job list --url {served} --tenant a") == ["acme"]
    assert offered(f"evertick backfill get --url {served} s ") == [ids["BACKFILL"]]


def test_what_a_server_gave_is_kept_for_a_while_for_its_token_alone(
    served: str, variables: dict[str, str], tmp_path: Path, command: Command
) -> None:
    line = f"evertick schedule describe --url {served} "
    assert completed(tmp_path, line, **variables) == ["c", "s"]
    assert command("schedule", "delete", "s").code == 0
    assert completed(tmp_path, line, **variables) == ["c", "s"]
    assert completed(tmp_path, line, **(variables | {"EVERTICK_TOKEN": "evt_other"})) == []

    folder = tmp_path / "cache" / "evertick" / "completion"
    files = list(folder.iterdir())
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not any(variables["EVERTICK_TOKEN"] in f"{each}{each.read_text()}" for each in files)

    for each in files:
        each.write_text("{")
    assert completed(tmp_path, line, **variables) == ["c"]


def test_a_kept_list_ends_after_half_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    began = time.time()

    def at(seconds: float, asked: str) -> list[str] | None:
        monkeypatch.setattr(cache.time, "time", lambda: began + seconds)
        return cache.kept([asked])

    cache.keep(["a"], ["x"])
    cache.keep(["b"], None)
    assert (at(4, "a"), at(4, "b")) == (["x"], [])
    assert (at(6, "a"), at(6, "b")) == (["x"], None)
    assert (at(31, "a"), at(-60, "a")) == (None, None)
    at(100, "a")
    cache.keep(["c"], ["y"])
    assert [each.name for each in cache.cache_folder().iterdir()] == [cache.file_for(["c"]).name]


def test_a_server_that_does_not_reply_keeps_nobody_waiting(variables: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # it takes the request and never replies
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert completed(tmp_path, f"evertick job get --url {url} ", **variables) == []
    assert completed(tmp_path, "evertick job get --url http://127.0.0.1:1 ", **variables) == []
    assert completed(tmp_path, "evertick job get --url nonsense ", **variables) == []
    assert completed(tmp_path, "evertick job get --profile none ", **variables) == []
    unwritable = {"XDG_CACHE_HOME": "/dev/null"}
    assert completed(tmp_path, "evertick job get --url http://127.0.0.1:1 ", **unwritable) == []
