-- save_schedules: write a schedule back, if no other transaction has since it was read. SQLite runs it once a row.
-- What is not known of its health stays as it was.
update schedules
   set spec = ?, target = ?, function = ?, state = ?, status = ?, note = ?, memo = ?, seen_until = ?, wake_at = ?,
       next_at = ?, last_at = ?, last_result = ?, last_failure = ?, version = ?, updated_at = ?,
       time_zone = coalesce(?, time_zone), failing = ?, late = coalesce(?, late), missed_at = coalesce(?, missed_at),
       revision = revision + 1
 where tenant = ? and id = ? and revision = ?
