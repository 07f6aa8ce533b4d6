-- count_schedules: how many schedules a tenant has, at most :limit.
select count(*)
  from (select 1
          from schedules
         where tenant = :tenant
         limit :limit) as found
