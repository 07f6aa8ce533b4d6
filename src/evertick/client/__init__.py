"""Clients of the HTTP API (`evertick serve`), for programs that have no access to the database.

    from evertick.client import Client

    with Client("https://jobs.example.org", token="evt_...") as client:
        job_id = client.scheduler.run_after(60, "shop.remind", order_id="7")
        print(client.jobs.get(job_id).state)

`Client` blocks, `AsyncClient` is awaited; both have the names of the Python API: `jobs`, `scheduler`, `schedules`,
`workflows`, `scripts`, `pools`, `tenants`, `tokens`, `audit_log`. They need the extra `client`.
"""

from evertick.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
