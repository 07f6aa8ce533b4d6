-- list_occurrences_of_asc: as list_occurrences_asc, of one schedule: reads the primary key.
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at, run_id, job_id,
       started_at, ended_at, outcome
  from occurrences
 where tenant = :tenant and schedule_id = :schedule_id and nominal_at >= :start and nominal_at < :end
   and (nominal_at, origin, request) > (:after_nominal, :after_origin, :after_request)
   and (cast(:fates as text) is null or cast(:fates as text) like '%,' || fate || ',%')
   and (cast(:reason as text) is null or reason = :reason)
   and (cast(:request as text) is null or request = :request)
 order by nominal_at asc, origin asc, request asc
 limit :limit
