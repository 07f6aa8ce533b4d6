-- write_open_occurrences: an occurrence waits, starts, or its run was asked to stop. What starts takes its place anew.
-- SQLite runs it once a row.
insert into open_occurrences (tenant, schedule_id, nominal_at, origin, request, waits, position, actual_at, overlap,
                              run_id, reason, started_at, stop)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set waits = excluded.waits, run_id = excluded.run_id, reason = excluded.reason, started_at = excluded.started_at,
       stop = excluded.stop,
       position = case when open_occurrences.waits = excluded.waits then open_occurrences.position
                       else excluded.position end
