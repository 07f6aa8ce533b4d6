-- count_occurrences: how many rows of the ledger in [start, end) have each fate and reason.
select fate, reason, count(*)
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
 group by fate, reason
