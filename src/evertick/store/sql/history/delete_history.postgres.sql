-- delete_history: remove finished jobs with their arguments and attempts; their counts go down. :ids is a JSON list.
with ids as materialized (
    select array(select json_array_elements_text(:ids::json)) as these
), gone as (
    delete from history
     where id = any ((select these from ids)::text[])
    returning tenant, name, state, retried_as
), bodies_gone as (
    delete from bodies
     where id = any ((select these from ids)::text[])
), attempts_gone as (
    delete from attempts
     where job_id = any ((select these from ids)::text[])
)
insert into job_count_changes (tenant, name, unfinished, success, failed, canceled, retried)
select tenant, name, 0, -count(*) filter (where state = 'success'), -count(*) filter (where state = 'failed'),
       -count(*) filter (where state = 'canceled'), -count(*) filter (where state = 'failed' and retried_as is not null)
  from gone
 group by tenant, name
