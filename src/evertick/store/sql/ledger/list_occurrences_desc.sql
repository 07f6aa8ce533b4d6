-- list_occurrences_desc: the ledger by nominal time, downwards, beyond the position given.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and nominal_at >= :start
   and (nominal_at, {schedule_id}, origin, request) < (:after_nominal, :after_schedule, :after_origin, :after_request)
 order by nominal_at desc, {schedule_id} desc, origin desc, request desc
 limit :limit
