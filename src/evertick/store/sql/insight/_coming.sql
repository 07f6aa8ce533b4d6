-- With 0, the specs of a tenant's schedules that are due before a moment, of the first :limit. With 1, the number of the span
-- from :start on in which jobs of the tenant that wait are due, runs of workflows left out, and with 2 other jobs: of the
-- first :look of all tenants. Reads the indexes schedules_by_next and jobs_waiting.
select 0 as part, spec as what, count(*) as number
  from (select spec
          from schedules
         where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :until
         order by coalesce(next_at, 9223372036854775807), id
         limit :limit) as coming
 group by spec
union all
select case when tenant = :tenant and kind <> 'workflow' then 1 else 2 end as part,
       cast((due_at - :start) / :span as text) as what, count(*) as number
  from (select tenant, kind, due_at
          from jobs
         where state = 'pending' and stage = 'waiting' and due_at > :now and due_at < :until
         order by due_at, id
         limit :look) as waiting
 group by part, what
