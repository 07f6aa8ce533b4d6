-- activity_by_minute: what happened in each minute since a moment, by worker. Reads the primary key.
select at, ended, failed, canceled, retried, late, took
  from activity
 where tenant = :tenant and name = '' and at >= :since
 order by at
