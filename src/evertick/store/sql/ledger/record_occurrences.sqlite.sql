-- record_occurrences: a row of the ledger: new, or the later fate of one that was waiting. SQLite runs it once a row.
insert into occurrences (tenant, schedule_id, nominal_at, origin, request, actual_at, fate, reason, detail, decided_at,
                         run_id, job_id, started_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set fate = excluded.fate, reason = excluded.reason, detail = excluded.detail, decided_at = excluded.decided_at,
       run_id = excluded.run_id, job_id = excluded.job_id, started_at = excluded.started_at
 where occurrences.fate = 'buffered'
