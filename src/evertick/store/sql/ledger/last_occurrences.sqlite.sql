-- last_occurrences: the newest occurrence of each of some schedules. Reads the primary key.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from {each :ids} as s
 cross join occurrences
 where tenant = :tenant and schedule_id = s.each
   and (nominal_at, origin, request) = (select edge.nominal_at, edge.origin, edge.request
                                          from occurrences edge
                                         where edge.tenant = :tenant and edge.schedule_id = s.each
                                         order by edge.nominal_at desc, edge.origin desc, edge.request desc
                                         limit 1)
