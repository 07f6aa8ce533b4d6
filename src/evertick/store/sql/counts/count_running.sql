-- count_running: how many actions of each function of a tenant run. Reads the index jobs_running, which holds no other
-- jobs than those that workers hold.
select name, count(*)
  from {running}
 where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant
   and (cast(:name as text) is null or name = :name)
 group by name
