-- activity_by_minute: what happened in each minute since a moment, by worker; or with a name what one function did in
-- each ten minutes. Reads the primary key.
select at, ended, failed, canceled, retried, late, took
  from activity
 where tenant = :tenant and name = :name and at >= :since
 order by at
