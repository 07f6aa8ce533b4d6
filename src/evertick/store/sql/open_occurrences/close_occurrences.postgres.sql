-- close_occurrences: runs ended, or occurrences wait no longer, in one round trip.
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
