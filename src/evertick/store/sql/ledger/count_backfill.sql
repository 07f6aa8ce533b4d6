-- count_backfill: how many rows of a backfill have each fate and outcome. Reads the primary key in [start, end).
select fate, outcome, count(*)
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
   and origin = 'backfill' and request = :request
 group by fate, outcome
