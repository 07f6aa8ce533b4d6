-- What all functions of a tenant did in each span of :slot milliseconds since :day_ago, and how late it was: the spreads of its
-- minutes, added up. Reads the primary key. PostgreSQL names the readers and makers of JSON otherwise.
select done.slot, done.ended, done.failed, done.canceled, done.retried, spread.late
  from (select at / :slot * :slot as slot, sum(ended) as ended, sum(failed) as failed, sum(canceled) as canceled,
               sum(retried) as retried
          from activity
         where tenant = :tenant and name = '' and at >= :day_ago
         group by 1) as done
  left join (select slot, json_object_agg(bucket, runs)::text as late
               from (select at / :slot * :slot as slot, part.key as bucket, sum(part.value::bigint) as runs
                       from activity
                      cross join json_each_text(coalesce(late, '{}')::json) as part
                      where tenant = :tenant and name = '' and at >= :day_ago
                      group by 1, 2) as parts
              group by slot) as spread on spread.slot = done.slot
