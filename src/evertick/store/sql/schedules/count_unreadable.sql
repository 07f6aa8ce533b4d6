-- count_unreadable: how many schedules of all tenants cannot be read, counted to :limit. The index has all that is asked.
select count(*)
  from (select 1 from schedules {indexed by schedules_in_order} where status = 'unreadable' limit :limit) as unreadable
