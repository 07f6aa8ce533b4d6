-- end_occurrences: runs of started occurrences ended, in one round trip.
-- Each row is looked up by its key, and then written where it is. The key is given as a range, because for equal values
-- PostgreSQL takes occurrences_in_order to be as good as the primary key while it has no statistics: it then read, for
-- each run, all occurrences of the same moment. The schedule is locked, or gone: nothing else writes the row meanwhile.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (ended_at bigint, outcome text, detail text, tenant text, schedule_id text, nominal_at bigint, origin text,
                 request text)
), found as materialized (
    select o.ctid as place, e.ended_at, e.outcome, e.detail
      from e
     cross join lateral (select ctid
                           from occurrences
                          where tenant = e.tenant
                            and (schedule_id, nominal_at, origin, request)
                                >= (e.schedule_id, e.nominal_at, e.origin, e.request)
                            and (schedule_id, nominal_at, origin, request)
                                <= (e.schedule_id, e.nominal_at, e.origin, e.request)
                         offset 0) o
)
update occurrences
   set ended_at = found.ended_at, outcome = found.outcome,
       detail = coalesce(found.detail, occurrences.detail)
  from found
 where occurrences.ctid = any (array(select place from found)) and occurrences.ctid = found.place
   and occurrences.fate = 'started' and occurrences.ended_at is null
