-- close_occurrences: runs ended, or occurrences wait no longer, in one round trip.
delete from open_occurrences
 using json_to_recordset(:rows::json) as c (tenant text, schedule_id text, nominal_at bigint, origin text, request text)
 where open_occurrences.tenant = c.tenant and open_occurrences.schedule_id = c.schedule_id
   and open_occurrences.nominal_at = c.nominal_at and open_occurrences.origin = c.origin
   and open_occurrences.request = c.request
