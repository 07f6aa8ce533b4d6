-- register_worker: a process starts to run jobs. `code` is the version of the schema that it knows.
insert into workers (id, started_at, leased_until, host, pid, app, release, serves, code, zone_data)
values (:id, :started_at, :leased_until, :host, :pid, :app, :release, :serves, :code, :zone_data)
