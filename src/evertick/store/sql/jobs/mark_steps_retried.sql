-- mark_steps_retried: write at the failed calls of a run that they run again in another one, unless that is written. Reads
-- the index history_by_parent: the state is compared so that those of failed jobs do not serve.
update history
   set retried_as = :again
 where tenant = :tenant and parent_id = :run
   and state || '' = 'failed' and retried_as is null and not ({is root})
returning id, name, kind
