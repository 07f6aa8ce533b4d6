-- prune_occurrences: remove at most :limit rows of the ledger decided before :before. What waits or runs stays.
delete from occurrences
 where (tenant, schedule_id, nominal_at, origin, request) in (
        select tenant, schedule_id, nominal_at, origin, request
          from occurrences
         where decided_at < :before and fate <> 'buffered' and (job_id is null or ended_at is not null)
         order by decided_at
         limit :limit)
