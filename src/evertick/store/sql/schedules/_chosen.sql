-- _chosen: what narrows a list of schedules. A filter that is null does not narrow.
-- The indexes of lists hold all that is asked.
(cast(:kind as text) is null or kind = :kind)
           and (cast(:status as text) is null or status = :status)
           and (cast(:function as text) is null or function = :function)
           and (cast(:time_zone as text) is null or time_zone = :time_zone)
           and (cast(:failing as integer) is null or failing = :failing)
           and (cast(:late_at as bigint) is null or late = 1 or next_at < :late_at)
           and (cast(:missed_since as bigint) is null or missed_at >= :missed_since)
           and (cast(:id_contains as text) is null or {has exactly id :id_contains})
           and (cast(:next_before as bigint) is null or next_at < :next_before)
