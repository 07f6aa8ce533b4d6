-- missed_since: which of some schedules missed a time since a moment. Reads the primary key, not
-- the index of all that missed something.
select id
  from schedules
 where tenant = :tenant and id in {list :ids} and coalesce(missed_at, 0) >= :since
