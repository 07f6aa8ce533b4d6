-- first_open_occurrences: the oldest open runs of a schedule, or what waits the longest. Reads the index
-- open_occurrences_in_order.
select tenant, schedule_id, nominal_at, origin, request, waits, position, actual_at, overlap, run_id, reason,
       started_at, stop
  from open_occurrences
 where tenant = :tenant and schedule_id = :schedule_id and waits = :waits
 order by position
 limit :limit
