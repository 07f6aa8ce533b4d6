-- list_occurrences_asc: the ledger by nominal time, upwards, beyond the position given.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and nominal_at < :end
   and (nominal_at, {schedule_id}, origin, request) > (:after_nominal, :after_schedule, :after_origin, :after_request)
 order by nominal_at asc, {schedule_id} asc, origin asc, request asc
 limit :limit
