-- recent_missed: the newest occurrences that were missed since a moment, at most :limit of each reason, and
-- whether a trigger or a backfill has made up for them. Reads the index occurrences_by_reason, and the primary key.
select o.schedule_id, o.nominal_at, o.reason, o.detail, o.actual_at, o.decided_at,
       exists (select 1
                 from occurrences as later
                where later.tenant = :tenant and later.schedule_id = o.schedule_id and later.nominal_at = o.nominal_at
                  and later.origin in ('backfill', 'trigger') and later.fate in ('started', 'buffered'))
  from {each :reasons} as r
 cross join occurrences as o
 where o.tenant = :tenant and o.reason = r.each
   and o.nominal_at >= max(:since, coalesce((select edge.nominal_at
                                                 from occurrences as edge
                                                where edge.tenant = :tenant and edge.reason = r.each
                                                order by edge.nominal_at desc
                                                limit 1 offset :limit), :since))
