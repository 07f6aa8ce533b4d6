-- expired_workers: workers whose lease ran out, locked; those that another reaper looks after are skipped.
select id, started_at, leased_until, host, pid, app, release, serves, code, zone_data
  from workers
 where leased_until <= :now
 order by leased_until
 limit :limit
{for update skip locked}
