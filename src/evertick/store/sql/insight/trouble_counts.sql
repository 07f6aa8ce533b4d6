-- trouble_counts: how many jobs of a tenant failed, and how many occurrences of its schedules were missed, since a moment each; to
-- :limit at most. Reads the indexes history_failed and occurrences_by_reason.
select (select count(*) from (select 1 from history {indexed by history_failed}
                               where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                               limit :limit) as failed),
       (select count(*) from (select 1
                                from {each :reasons} as r
                               cross join occurrences
                               where tenant = :tenant and reason = r.each and nominal_at >= :day_ago
                               limit :limit) as missed)
