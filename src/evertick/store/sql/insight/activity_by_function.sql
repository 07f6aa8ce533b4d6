-- activity_by_function: how often each function of a tenant was run and failed in the last hour and day. Reads the
-- primary key.
select name, sum(case when at >= :hour_ago then ended else 0 end), sum(case when at >= :hour_ago then failed else 0 end),
       sum(ended), sum(failed)
  from activity
 where tenant = :tenant and name > '' and at >= :day_ago
 group by name
