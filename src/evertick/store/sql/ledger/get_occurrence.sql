-- get_occurrence: one row of the ledger.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at = :nominal_at and origin = :origin
   and request = :request
