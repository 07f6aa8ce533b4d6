-- tenants_with_jobs: as SQLite's; PostgreSQL is not told which index to read.
with recursive found (tenant) as (
  select * from (select tenant from jobs where tenant > :after order by tenant limit 1) as first
  union all
  select (select j.tenant from jobs j where j.tenant > found.tenant order by j.tenant limit 1)
    from found
   where found.tenant is not null)
select tenant from found where tenant is not null limit :limit
