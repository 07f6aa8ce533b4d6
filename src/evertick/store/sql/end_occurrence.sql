-- end_occurrence: the run of a started occurrence ended.
update occurrences
   set ended_at = :ended_at, outcome = :outcome
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at = :nominal_at and origin = :origin
   and request = :request and fate = 'started' and ended_at is null
