-- record_occurrences: rows of the ledger, new, or the later fate of ones that were waiting, in one round trip.
insert into occurrences (tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at,
                         run_id, job_id, started_at)
select tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at,
       run_id, job_id, started_at
  from json_to_recordset(:rows::json)
       as o (tenant text, schedule_id text, nominal_at bigint, origin text, request text, actual_at bigint, fate text,
             reason text, detail text, decided_at bigint, run_id text, job_id text, started_at bigint)
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set fate = excluded.fate, reason = excluded.reason, detail = excluded.detail, decided_at = excluded.decided_at,
       run_id = excluded.run_id, job_id = excluded.job_id, started_at = excluded.started_at
 where occurrences.fate = 'buffered'
