"""Health of a worker over HTTP, for process managers: GET /live and GET /ready.

`/live` is 200 while the event loop turns: restart a process for which it is not. `/ready` is 200 while the worker is
registered, holds its lease, is not stopping and can read and write its database. Otherwise both are 503. The body is
JSON with a reason. `/metrics` has the metrics of the worker and its database for Prometheus, if the extra `metrics` is
installed.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from evertick.app.embedded_worker import Stopper
from evertick.base.errors import EvertickError, Misuse
from evertick.base.step_limit import blocker_of
from evertick.cli.core.databases import now_of
from evertick.store.store import Store

_logger: Final = logging.getLogger("evertick.cli")

LOOP_S: Final = 2.0
"""How long the event loop may take to turn once."""
REQUEST_S: Final = 5.0
"""How long a client may take to send its request."""

Check = Callable[[], str | None]
"""Returns why the worker is not fit, or None if it is."""


class HealthServer:
    """Serves the pages in threads until `close`; `metrics` returns the text of `/metrics`.

    Raises Misuse if the address cannot be used.
    """

    def __init__(self, host: str, port: int, *, live: Check, ready: Check, metrics: Callable[[], bytes] | None) -> None:
        checks = {"/live": live, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_S

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._reply_metrics()
                    return
                check = checks.get(self.path)
                reason = f"there are only {', '.join(checks)} and /metrics" if check is None else check()
                self._reply(404 if check is None else 503 if reason else 200, reason)

            def _reply_metrics(self) -> None:
                if metrics is None:
                    self._reply(501, "metrics need prometheus-client: pip install 'evertick[metrics]'")
                else:
                    self._send(200, "text/plain; version=0.0.4; charset=utf-8", metrics())

            def _reply(self, status: int, reason: str | None) -> None:
                body = json.dumps({"ok": status == 200} | ({} if reason is None else {"reason": reason})).encode()
                self._send(status, "application/json", body)

            def _send(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Do nothing: probes come every few seconds and are not logged."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise Misuse(f"--health-port: cannot listen at {host}:{port}: {error}") from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="evertick-health", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class WorkerHealth:
    """The state of one worker, for other threads. Create it in the thread of the worker's event loop."""

    def __init__(self, stopper: Stopper, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopper = stopper
        self._store = store
        self._reading = threading.Lock()

    def live(self) -> str | None:
        """The reason why the process should be restarted; None if it is healthy."""
        turned = threading.Event()
        try:
            self._loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return "the worker has ended"
        if turned.wait(LOOP_S):
            return None
        reason, holder = f"the event loop has not turned for {LOOP_S:g} s", blocker_of(self._loop)
        return reason if holder is None else f"{reason}; it is held by the {holder}"

    def ready(self) -> str | None:
        """The reason why the worker takes no jobs; None if it takes jobs."""
        if self._stopper.asked:
            return "the worker is stopping"
        worker_id = self._stopper.worker_id
        if worker_id is None:
            return "the worker is not registered"
        # While the database does not reply, one probe waits for it and not all of them.
        if not self._reading.acquire(blocking=False):
            return "the database has not replied to an earlier probe"
        try:
            now = now_of(self._store)
            failure = self._store.write_failure()
            if failure is not None:
                return failure.sentence(now)
            alive = self._store.read(lambda transaction: transaction.workers_alive(now))
        except EvertickError as error:
            _logger.warning("/ready: %s", error)  # who asks need not know where the database is
            return "the database cannot be read"
        finally:
            self._reading.release()
        if all(worker.id != worker_id for worker in alive):
            return "the worker's lease has run out"
        return self.live()
