-- list_occurrences_by_reason_asc: as list_occurrences_asc, of one reason, as far as its fate is one of :fates.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and reason = :reason and nominal_at < :end
   and (nominal_at, {schedule_id}, origin, request) > (:after_nominal, :after_schedule, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
 order by nominal_at asc, {schedule_id} asc, origin asc, request asc
 limit :limit
