-- job_groups: the unfinished jobs of the tenants in the JSON list :tenants, by function, pool and what they do: how many,
-- and the earliest due time. Looks at no more than :limit jobs, by the index jobs_by_name.
select tenant, name, pool, doing, count(*), min(due_at)
  from (select j.tenant, j.name, j.pool, j.due_at,
               case when j.state = 'in_progress' and j.kind = 'action' then 'running' when j.due_at > :now or j.stage = 'paused' then 'later'
                    when j.state = 'pending' then 'due' else 'claimed' end as doing
          from json_each(:tenants) as t
         cross join jobs as j indexed by jobs_by_name
            on j.tenant = t.value
         limit :limit) as looked
 group by tenant, name, pool, doing
