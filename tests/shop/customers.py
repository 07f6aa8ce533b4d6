"""Customers: threads that place orders over HTTP at a steady rate, and try again when the shop does not reply."""

import json
import threading
import time
from http.client import HTTPConnection, HTTPException
from typing import Final

THREADS: Final = 8
PAUSE_S: Final = 0.1
PATIENCE_S: Final = 120.0


class Customers:
    """`rate` orders a second, as long as the shop keeps up, until they leave."""

    def __init__(self, port: int, rate: float) -> None:
        self.port = port
        """Where the shop is; it may move."""
        self.placed: list[int] = []
        """The numbers of orders of which the shop said that they are placed."""
        self.tried_again = 0
        self._rate = rate
        self._began = time.monotonic()
        self._next = 0
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._threads = [threading.Thread(target=self._shop, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until at least so many orders are placed. Raises AssertionError if that takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.placed) < count:
            assert time.monotonic() < deadline, f"only {len(self.placed)} of {count} orders are placed"
            time.sleep(PAUSE_S)

    def leave(self) -> None:
        """Place no further orders."""
        self._left.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _shop(self) -> None:
        while not self._left.is_set():
            with self._lock:
                number = self._next
                self._next += 1
            if self._left.wait(max(0.0, self._began + number / self._rate - time.monotonic())):
                return
            while not self._order(number) and not self._left.wait(PAUSE_S):
                self.tried_again += 1

    def _order(self, number: int) -> bool:
        """Place an order; returns whether the shop said that it is placed."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            order = json.dumps({"email": f"{number}@example.com", "item": "tea"})
            connection.request("POST", "/orders", order, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        if reply.status == 201:
            self.placed.append(int(body))
        else:
            assert reply.status >= 500, (reply.status, body)
        return reply.status == 201
