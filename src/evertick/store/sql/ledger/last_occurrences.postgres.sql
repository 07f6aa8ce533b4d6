-- last_occurrences: as SQLite's; a lateral join makes PostgreSQL take one step of the primary key for each schedule.
select o.*
  from {each :ids} as s
 cross join lateral (select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
                            started_at, ended_at, outcome
                       from occurrences
                      where tenant = :tenant and schedule_id = s.each
                      order by nominal_at desc, origin desc, request desc
                      limit 1) as o
