-- last_version: the highest version that schedules of this id had, as far as their history is kept. A new id has none.
select coalesce(max(version), 0)
  from schedule_history
 where tenant = :tenant and schedule_id = :schedule_id
