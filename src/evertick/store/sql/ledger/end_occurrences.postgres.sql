-- end_occurrences: runs of started occurrences ended, in one round trip.
update occurrences
   set ended_at = e.ended_at, outcome = e.outcome
  from json_to_recordset(:rows::json)
       as e (ended_at bigint, outcome text, tenant text, schedule_id text, nominal_at bigint, origin text, request text)
 where occurrences.tenant = e.tenant and occurrences.schedule_id = e.schedule_id
   and occurrences.nominal_at = e.nominal_at and occurrences.origin = e.origin and occurrences.request = e.request
   and occurrences.fate = 'started' and occurrences.ended_at is null
