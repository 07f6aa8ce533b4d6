-- resume_run: let a paused run go on when it is due.
update jobs
   set stage = case when crashes >= 2 then 'suspect' when due_at <= :now then 'ready' else 'waiting' end
 where id = :id and tenant = :tenant and stage = 'paused'
returning id
