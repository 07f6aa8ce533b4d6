-- blocked_names: the functions that blocked jobs wait for.
select distinct name
  from jobs
 where blocked = 1
