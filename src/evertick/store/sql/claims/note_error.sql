-- note_error: say of a job that runs what is wrong with it. Its end replaces that.
update jobs
   set error = :error
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
