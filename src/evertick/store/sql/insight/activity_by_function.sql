-- activity_by_function: how often each function of a tenant was run and failed in the last hour and day; and in rows without
-- a name, what `activity_by_slot` finds. Reads the primary key.
select name, 0, sum(case when at >= :hour_ago then ended else 0 end), sum(case when at >= :hour_ago then failed else 0 end),
       sum(ended), sum(failed), 0, 0, null
  from activity
 where tenant = :tenant and name > '' and at >= :day_ago
 group by name
union all
select '', slot, 0, 0, ended, failed, canceled, retried, late
  from ({slots}) as slots
 order by 1, 2
