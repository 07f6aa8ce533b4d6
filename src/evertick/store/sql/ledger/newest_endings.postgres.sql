-- newest_endings: as SQLite's; a lateral join makes PostgreSQL read the primary key for each schedule.
select s.each, o.fate, o.outcome, o.origin, o.started_at - o.actual_at
  from {each :ids} as s
 cross join lateral (select nominal_at, origin, request, fate, outcome, started_at, actual_at
                       from occurrences
                      where tenant = :tenant and schedule_id = s.each
                      order by nominal_at desc, origin desc, request desc
                      limit :beside + 1) as o
