-- open_occurrences: open runs and waiting occurrences of some schedules, in order.
-- :keys is a JSON list of [tenant, id]; PostgreSQL names its reader otherwise.
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select value ->> 0 as tenant, value ->> 1 as id from json_array_elements(:keys::json)) k
  join open_occurrences o on o.tenant = k.tenant and o.schedule_id = k.id
 order by o.tenant, o.schedule_id, o.waits, o.position
