-- unblock_jobs: a worker that knows :name is here now.
update jobs
   set blocked = 0
 where blocked = 1 and name = :name and state = 'pending'
