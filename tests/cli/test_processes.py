"""Workers as processes: a program that is one, several under a supervisor, and what a process manager can ask."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

import psycopg
import pytest

from tests.cli.programs import DEADLINE_S, Program, Start, children_of, environment, evertick

pytestmark = pytest.mark.processes

READY = "runs the jobs of chat"


def free_port(count: int = 1) -> int:
    """A port that was free a moment ago, and so many after it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        try:
            for each in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port


def ask(port: int, path: str) -> tuple[int, Any]:
    """The status and the body of a page of a worker's health."""
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = json.loads(reply.read())
    connection.close()
    return reply.status, body


def test_app_run_is_a_worker_that_sigterm_drains(folder: Path) -> None:
    (folder / "main.py").write_text(
        "from app import app, fail\napp.scheduler.run_after(0, fail)\napp.run()\nprint('over')"
    )
    with subprocess.Popen(
        [sys.executable, "main.py"], cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:  # fmt: skip
        assert program.stderr is not None
        # No logging is set up: Python prints warnings.
        assert program.stderr.readline() == "app.fail failed: ValueError: no luck\n"

        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=DEADLINE_S)

    assert (program.returncode, out) == (0, "over\n")


def test_app_run_in_another_thread_says_what_to_use(folder: Path) -> None:
    code = "import threading\nfrom app import app\nthreading.Thread(target=app.run).start()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )

    assert "Misuse: app.run() handles signals, so it must run in the main thread; use app.running()" in done.stderr


def test_health_says_whether_a_worker_takes_jobs(folder: Path, start: Start) -> None:
    evertick(folder, "migrate", "app.py")
    port = free_port()
    worker = start("worker", "--health-port", str(port))
    worker.wait_for(READY)
    evertick(folder, "run", "app.wait", "seconds=2", "--after", "0s")
    worker.wait_for("waiting")

    assert ask(port, "/live") == (200, {"ok": True})
    assert ask(port, "/ready") == (200, {"ok": True})
    assert ask(port, "/etc/passwd") == (404, {"ok": False, "reason": "there are only /live, /ready and /metrics"})
    text = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S).read().decode()
    assert 'evertick_jobs{app="chat",function="app.wait",pool="default",state="running"} 1.0' in text
    worker.send(signal.SIGTERM)
    worker.wait_for("stopping")
    assert ask(port, "/ready") == (503, {"ok": False, "reason": "the worker is stopping"})
    assert ask(port, "/live") == (200, {"ok": True})
    assert worker.end() == 0


@pytest.mark.long
@pytest.mark.parametrize("held", [
    "__import__('time').sleep(600)",
    # Waits inside C code that does not come back for signals, as some drivers of databases do.
    "[__import__('ctypes').CDLL(None).pthread_mutex_lock(mutex) for _ in range(2)]",
])  # fmt: skip
def test_a_loop_that_does_not_turn_is_not_live_and_its_process_ends_when_it_must(
    folder: Path, start: Start, held: str
) -> None:
    code = "\nmutex = __import__('ctypes').create_string_buffer(64)\n"
    code += f"@app.action\nasync def block(ctx) -> None:\n    ctx.log.info('blocking')\n    {held}\n"
    (folder / "app.py").write_text((folder / "app.py").read_text() + code)
    evertick(folder, "migrate", "app.py")
    port = free_port()
    worker = start("worker", "--health-port", f"127.0.0.1:{port}", "--drain", "0")
    worker.wait_for(READY)
    evertick(folder, "run", "app.block", "--after", "0s")
    worker.wait_for("blocking")

    status, reply = ask(port, "/live")
    reason = reply["reason"].rpartition(" ")[0]  # without the id of the job
    assert (status, reason) == (503, "the event loop has not turned for 2 s; it is held by the action app.block")
    worker.send(signal.SIGTERM)
    worker.wait_for("the event loop is held by the action app.block")
    assert worker.end() == 130


@pytest.mark.long
def test_signals_for_processes_that_a_function_forks_are_not_for_the_worker(folder: Path, start: Start) -> None:
    code = """
import itertools, multiprocessing, time
times = itertools.count(1)

@app.action
def fork(ctx) -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join()
    ctx.log.info(f"times={next(times)} ended by {child.exitcode}")
"""
    (folder / "app.py").write_text((folder / "app.py").read_text() + code)
    evertick(folder, "migrate", "app.py")
    worker = start("worker")
    worker.wait_for(READY)
    for times in range(1, 4):
        evertick(folder, "run", "app.fork", "--after", "0s")
        worker.wait_for(f"times={times} ended by -{signal.SIGTERM:d}")
    worker.send(signal.SIGTERM)

    assert worker.end() == 0


@pytest.mark.long
@pytest.mark.postgres
def test_a_worker_without_its_lease_or_its_database_is_live_but_not_ready(
    folder: Path, start: Start, postgres_url: str
) -> None:
    changes = {"EVERTICK_DATABASE_URL": postgres_url}
    evertick(folder, "migrate", "app.py", **changes)
    port = free_port()
    worker = start("worker", "--health-port", str(port), **changes)
    worker.wait_for(READY)
    wait_until(port, "/ready", 200)
    name = urlsplit(postgres_url).path[1:]
    with psycopg.connect(urlunsplit(urlsplit(postgres_url)._replace(path="/postgres")), autocommit=True) as admin:
        with psycopg.connect(postgres_url) as own:  # a lease that ends as soon as it is renewed
            own.execute(
                "create function expire() returns trigger language plpgsql as "
                "$$ begin new.leased_until = 1; return new; end $$"
            )
            own.execute(
                "create trigger expire before insert or update on evertick.workers "
                "for each row execute procedure expire()"
            )
            own.execute("update evertick.workers set leased_until = 1")
        assert wait_until(port, "/ready", 503) in {"the worker's lease has run out", "the worker is not registered"}
        with psycopg.connect(postgres_url) as own:
            own.execute("drop trigger expire on evertick.workers")
        wait_until(port, "/ready", 200)

        admin.execute(f"alter database {name} allow_connections false".encode())
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        assert wait_until(port, "/ready", 503) == "the database cannot be read"
        assert ask(port, "/live") == (200, {"ok": True})
        admin.execute(f"alter database {name} allow_connections true".encode())
        wait_until(port, "/ready", 200)


def wait_until(port: int, path: str, status: int) -> str:
    """Ask for a page until it has this status; returns its reason."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        got, body = ask(port, path)
        if got == status:
            return str(body.get("reason"))
        time.sleep(0.1)
    raise AssertionError((got, body))


def test_a_health_port_that_cannot_be_used_is_refused(folder: Path) -> None:
    evertick(folder, "migrate", "app.py")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = evertick(folder, "worker", "--health-port", str(port))
    odd = evertick(folder, "worker", "--health-port", "localhost")

    assert done.code != 0
    assert f"--health-port: cannot listen at 127.0.0.1:{port}: " in done.err
    assert (odd.code, "'localhost' is not [HOST:]PORT, such as 8081 or 0.0.0.0:8081" in odd.err) == (2, True)


def test_several_processes_need_postgresql(folder: Path) -> None:
    evertick(folder, "migrate", "app.py")

    done = evertick(folder, "worker", "--processes", "3")

    assert done.code != 0
    assert done.err.count("--processes needs PostgreSQL") == 1


def begin_three(folder: Path, start: Start, url: str, *words: str) -> tuple[Program, dict[str, str]]:
    """A supervisor with three workers that run, and the environment of commands beside it."""
    changes = {"EVERTICK_DATABASE_URL": url}
    assert evertick(folder, "migrate", "app.py", **changes).code == 0
    supervisor = start("worker", "--processes", "3", *words, **changes)
    supervisor.wait_for("3 workers")
    mark = 0
    for _ in range(3):
        line = supervisor.wait_for(READY, after=mark)
        mark = supervisor.lines.index(line, mark) + 1
    return supervisor, changes


@pytest.mark.long
def test_a_worker_that_dies_is_replaced_and_all_drain(folder: Path, start: Start, postgres_url: str) -> None:
    port = free_port(3)
    supervisor, changes = begin_three(folder, start, postgres_url, "--health-port", str(port))
    assert [ask(port + number, "/live")[0] for number in range(3)] == [200, 200, 200]
    workers = children_of(supervisor.process.pid)
    assert len(workers) == 3
    mark = supervisor.mark

    os.kill(workers[0], signal.SIGKILL)
    supervisor.wait_for(r"worker \d was killed by SIGKILL; another one starts", after=mark)
    supervisor.wait_for(READY, after=mark)
    assert len(children_of(supervisor.process.pid)) == 3
    job_id = evertick(folder, "run", "app.wait", "seconds=0", "--after", "0s", **changes).out.strip()
    supervisor.wait_for("waiting")

    supervisor.send(signal.SIGTERM)
    assert supervisor.end() == 0
    assert evertick(folder, "job", "get", job_id, "--fields", "state", **changes).out == "state\tsuccess\n"


def test_workers_drain_when_their_supervisor_is_killed(folder: Path, start: Start, postgres_url: str) -> None:
    supervisor, _ = begin_three(folder, start, postgres_url)

    os.kill(supervisor.process.pid, signal.SIGKILL)

    supervisor.end()  # the pipe of their output is closed once all of them have ended
    assert supervisor.text.count(": stopping: running actions have") == 3
    assert supervisor.text.count("evertick.cli: stopped") == 3


def test_an_error_of_the_first_worker_is_said_once(folder: Path, postgres_url: str) -> None:
    done = evertick(folder, "worker", "--processes", "4", EVERTICK_DATABASE_URL=postgres_url)

    assert done.code == 7
    assert done.err.count("evertick migrate") == 1
