-- expired_workers: workers whose lease ran out. SQLite has one writer, so no other reaper looks at the same time.
select id, started_at, leased_until, host, pid, app, release, serves, code, zone_data
  from workers
 where leased_until <= :now
 order by leased_until
 limit :limit
