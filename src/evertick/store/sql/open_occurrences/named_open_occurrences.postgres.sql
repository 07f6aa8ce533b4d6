-- named_open_occurrences: what is open of a schedule by their keys, in order. :keys is a JSON list of [nominal_at, origin,
-- request]; PostgreSQL names its reader otherwise.
select o.tenant, o.schedule_id, o.nominal_at, o.origin, o.request, o.waits, o.position, o.actual_at, o.overlap,
       o.run_id, o.reason, o.started_at, o.stop
  from (select (value ->> 0)::bigint as nominal_at, value ->> 1 as origin, value ->> 2 as request
          from json_array_elements(:keys::json)) k
  join open_occurrences o
    on o.tenant = :tenant and o.schedule_id = :schedule_id and o.nominal_at = k.nominal_at and o.origin = k.origin
   and o.request = k.request
 order by o.position
