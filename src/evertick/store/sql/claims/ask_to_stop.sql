-- ask_to_stop: let a job's worker know that its run should stop. A pending one is canceled by cancel_job instead.
update jobs
   set stop = 1
 where id = :id and tenant = :tenant and state = 'in_progress' and stop = 0
returning id
