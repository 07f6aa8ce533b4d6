-- write_open_occurrences: occurrences wait, start, or their runs were asked to stop.
-- What starts takes its place anew. In one round trip.
insert into open_occurrences (tenant, schedule_id, nominal_at, origin, request, waits, position, actual_at, overlap,
                              run_id, reason, started_at, stop)
select tenant, schedule_id, nominal_at, origin, request, waits, position, actual_at, overlap, run_id, reason,
       started_at, stop
  from json_to_recordset(:rows::json)
       as o (tenant text, schedule_id text, nominal_at bigint, origin text, request text, waits smallint,
             position bigint, actual_at bigint, overlap text, run_id text, reason text, started_at bigint, stop text)
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set waits = excluded.waits, run_id = excluded.run_id, reason = excluded.reason, started_at = excluded.started_at,
       stop = excluded.stop,
       position = case when open_occurrences.waits = excluded.waits then open_occurrences.position
                       else excluded.position end
