-- recent_missed: the newest occurrences that were missed since a moment, at most :limit of each reason. Reads the index
-- occurrences_by_reason.
select o.schedule_id, o.nominal_at, o.reason, o.detail
  from {each :reasons} as r
 cross join occurrences as o
 where o.tenant = :tenant and o.reason = r.each
   and o.nominal_at >= max(:day_ago, coalesce((select edge.nominal_at
                                                 from occurrences as edge
                                                where edge.tenant = :tenant and edge.reason = r.each
                                                order by edge.nominal_at desc
                                                limit 1 offset :limit), :day_ago))
