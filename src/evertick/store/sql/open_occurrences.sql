-- name: close_occurrences (postgres)
-- Remove ended runs, or occurrences that do not wait any more, in one round trip.
-- Each row is looked up by its key, as in end_occurrences; the order keeps PostgreSQL from open_occurrences_in_order.
with c as materialized (
    select *
      from json_to_recordset(:rows::json)
           as c (tenant text, schedule_id text, nominal_at bigint, origin text, request text)
)
delete from open_occurrences
 where ctid = any (array(
           select o.ctid
             from c
            cross join lateral (select ctid
                                  from open_occurrences
                                 where tenant = c.tenant and schedule_id = c.schedule_id
                                   and (nominal_at, origin, request) >= (c.nominal_at, c.origin, c.request)
                                   and (nominal_at, origin, request) <= (c.nominal_at, c.origin, c.request)
                                 order by nominal_at, origin, request
                                 limit 1) o
       ))

-- name: close_occurrences (sqlite)
-- Remove an ended run, or an occurrence that does not wait any more. SQLite runs it once a row.
delete from open_occurrences
 where tenant = ? and schedule_id = ? and nominal_at = ? and origin = ? and request = ?

-- name: first_open_occurrences
-- The oldest open runs of a schedule, or the longest waiting occurrences. Reads the index open_occurrences_in_order.
select tenant, schedule_id, nominal_at, origin, request, waits, position, actual_at, overlap, run_id, reason,
       started_at, stop
  from open_occurrences
 where tenant = :tenant and schedule_id = :schedule_id and waits = :waits
 order by position
 limit :limit

-- name: forget_open_occurrences
-- Remove the open occurrences of a deleted schedule.
delete from open_occurrences
 where tenant = :tenant and schedule_id = :id

-- name: named_open_occurrences (postgres)
-- Open occurrences of a schedule by their keys, in order. :keys is a JSON list of [nominal_at, origin, request];
-- PostgreSQL's function for it has another name.
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select (value ->> 0)::bigint as nominal_at, value ->> 1 as origin, value ->> 2 as request
          from json_array_elements(:keys::json)) k
  join open_occurrences o
    on o.tenant = :tenant and o.schedule_id = :schedule_id and o.nominal_at = k.nominal_at and o.origin = k.origin
   and o.request = k.request
 order by o.position

-- name: named_open_occurrences (sqlite)
-- Open occurrences of a schedule by their keys, in order. :keys is a JSON list of [nominal_at, origin, request].
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select json_extract(value, '$[0]') as nominal_at, json_extract(value, '$[1]') as origin,
               json_extract(value, '$[2]') as request
          from json_each(:keys)) k
 cross join open_occurrences o
    on o.tenant = :tenant and o.schedule_id = :schedule_id and o.nominal_at = k.nominal_at and o.origin = k.origin
   and o.request = k.request
 order by o.position

-- name: open_occurrences (postgres)
-- Open runs and waiting occurrences of some schedules, in order.
-- :keys is a JSON list of [tenant, id]; PostgreSQL's function for it has another name.
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select value ->> 0 as tenant, value ->> 1 as id from json_array_elements(:keys::json)) k
  join open_occurrences o on o.tenant = k.tenant and o.schedule_id = k.id
 order by o.tenant, o.schedule_id, o.waits, o.position

-- name: open_occurrences (sqlite)
-- Open runs and waiting occurrences of some schedules, in order.
-- :keys is a JSON list of [tenant, id].
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select json_extract(value, '$[0]') as tenant, json_extract(value, '$[1]') as id from json_each(:keys)) k
 cross join open_occurrences o on o.tenant = k.tenant and o.schedule_id = k.id
 order by o.tenant, o.schedule_id, o.waits, o.position

-- name: write_open_occurrences
-- Store occurrences that wait or start, or whose runs were asked to stop. A start gets a new position.
insert into open_occurrences {rows: tenant text, schedule_id text, nominal_at bigint, origin text, request text,
    waits smallint, position bigint, actual_at bigint, overlap text, run_id text, reason text, started_at bigint,
    stop text}
on conflict (tenant, schedule_id, nominal_at, origin, request) do update
   set waits = excluded.waits, run_id = excluded.run_id, reason = excluded.reason, started_at = excluded.started_at,
       stop = excluded.stop,
       position = case when open_occurrences.waits = excluded.waits then open_occurrences.position
                       else excluded.position end
