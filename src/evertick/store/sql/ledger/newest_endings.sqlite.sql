-- newest_endings: how the newest occurrences of some schedules ended, :count of each, the newest first. Reads the
-- primary key; those of the time at which :count is reached all come along.
select o.schedule_id, o.fate, o.outcome, o.origin, o.started_at - o.actual_at
  from {each :ids} as s
 cross join occurrences o
 where o.tenant = :tenant and o.schedule_id = s.each
   and o.nominal_at >= coalesce((select edge.nominal_at
                                   from occurrences edge
                                  where edge.tenant = :tenant and edge.schedule_id = s.each
                                  order by edge.nominal_at desc
                                  limit 1 offset :beside), -9223372036854775807)
 order by o.schedule_id, o.nominal_at desc, o.origin desc, o.request desc
