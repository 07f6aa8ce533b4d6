-- list_workers: every worker, oldest first.
select id, started_at, leased_until, host, pid, app, release, serves, code, zone_data
  from workers
 order by started_at, id
