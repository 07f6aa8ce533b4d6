-- What all functions of a tenant did in each span of :slot milliseconds since :day_ago, and how late it was: the spreads of its
-- minutes, added up. Reads the primary key.
select done.slot, done.ended, done.failed, done.canceled, done.retried, spread.late
  from (select at / :slot * :slot as slot, sum(ended) as ended, sum(failed) as failed, sum(canceled) as canceled,
               sum(retried) as retried
          from activity
         where tenant = :tenant and name = '' and at >= :day_ago
         group by 1) as done
  left join (select slot, {json of bucket, runs} as late
               from (select at / :slot * :slot as slot, part.key as bucket, sum(cast(part.value as bigint)) as runs
                       from activity
                      cross join {pairs of late} as part
                      where tenant = :tenant and name = '' and at >= :day_ago
                      group by 1, 2) as parts
              group by slot) as spread on spread.slot = done.slot
