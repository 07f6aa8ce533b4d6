-- prune_occurrences: remove at most :limit rows of the ledger decided before :before. What waits stays.
delete from occurrences
 where (tenant, schedule_id, nominal_at, origin, request) in (
        select tenant, schedule_id, nominal_at, origin, request
          from occurrences
         where decided_at < :before and fate <> 'buffered'
         order by decided_at
         limit :limit)
