-- mark_steps_retried: write at the failed calls of a run that they run again in another one, unless that is written.
update history
   set retried_as = :again
 where tenant = :tenant and parent_id = :run
   and state = 'failed' and coalesce(retried_as, '') = '' and not ({is root})
returning id, name, kind
