-- job_family: a job and all that follow from it, at most :limit: what it has scheduled, what those have, and so on.
with recursive family (id) as (
    select cast(:id as text) collate "C"
    union
    select child.id
      from family
     cross join lateral (select id
                           from jobs
                          where tenant = :tenant and parent_id = family.id
                         union all
                         select id
                           from history
                          where tenant = :tenant and parent_id = family.id) as child
)
select id
  from family
 limit :limit
