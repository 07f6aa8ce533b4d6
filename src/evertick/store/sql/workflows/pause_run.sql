-- pause_run: let an unfinished run go on no more. What is paused stands in no index that claims read; a run that a worker
-- has is parked as paused.
update jobs
   set stage = 'paused'
 where id = :id and tenant = :tenant and kind = 'workflow' and state in ('pending', 'in_progress') and stage <> 'paused'
returning id
