-- register_worker: a process starts to run jobs.
insert into workers (id, started_at, leased_until, host, pid, app, release, serves)
values (:id, :started_at, :leased_until, :host, :pid, :app, :release, :serves)
