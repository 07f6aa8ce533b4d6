-- The functions of a tenant's unfinished jobs: one step of the index jobs_by_name for each.
with recursive names (name) as (
    select (select name from jobs where tenant = :tenant order by name limit 1)
    union all
    select (select name from jobs where tenant = :tenant and name > names.name order by name limit 1)
      from names
     where names.name is not null
)
select name
  from names
 where name is not null
