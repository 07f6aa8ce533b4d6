-- job_groups: as SQLite's; a lateral join takes the jobs of each tenant.
select tenant, name, pool, doing, count(*), min(due_at)
  from (select j.tenant, j.name, j.pool, j.due_at,
               case when j.state = 'in_progress' and j.kind = 'action' then 'running' when j.due_at > :now or j.stage = 'paused' then 'later'
                    when j.state = 'pending' then 'due' else 'claimed' end as doing
          from json_array_elements_text(:tenants::json) as t (each)
         cross join lateral (select * from jobs where tenant = t.each order by name limit :limit) as j
         limit :limit) as looked
 group by tenant, name, pool, doing
