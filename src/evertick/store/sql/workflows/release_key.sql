-- release_key: take its key from a run or an action that has not ended, so that another job may have it.
update jobs
   set key = null
 where id = :id and tenant = :tenant and kind in ('workflow', 'action') and state in ('pending', 'in_progress')
returning id
