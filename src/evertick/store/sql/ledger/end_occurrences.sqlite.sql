-- end_occurrences: the run of a started occurrence ended. SQLite runs it once a row.
update occurrences
   set ended_at = ?, outcome = ?, detail = coalesce(?, detail)
 where tenant = ? and schedule_id = ? and nominal_at = ? and origin = ? and request = ?
   and fate = 'started' and ended_at is null
