-- has_missed: whether a time of a schedule was found missed since :decided that neither a trigger nor a backfill has
-- started since; of the times since :since. Reads the primary key.
select 1
  from occurrences as missed
 where missed.tenant = :tenant and missed.schedule_id = :schedule_id and missed.nominal_at >= :since
   and missed.fate = 'missed' and missed.decided_at >= :decided
   and not exists (select 1
                     from occurrences as later
                    where later.tenant = :tenant and later.schedule_id = :schedule_id
                      and later.nominal_at = missed.nominal_at
                      and later.origin in ('backfill', 'trigger') and later.fate = 'started')
 limit 1
