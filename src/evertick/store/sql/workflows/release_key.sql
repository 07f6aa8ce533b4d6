-- release_key: take its key from a run that has not ended, so that another one may have it.
update jobs
   set key = null
 where id = :id and tenant = :tenant and kind = 'workflow' and state in ('pending', 'in_progress')
returning id
