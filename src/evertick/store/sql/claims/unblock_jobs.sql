-- unblock_jobs: a worker that knows :name, and of which kind it is (null: as it says), is here now.
update jobs
   set blocked = 0, kind = coalesce(:kind, kind)
 where blocked = 1 and name = :name and state = 'pending'
