-- list_lines_of_jobs: as list_lines, of few jobs, a JSON list of ids; the lines of each are read and put in order.
-- As expressions, so that no database takes the index logs_stored, which holds the lines of all the other jobs, too.
select stored_at, job_id, attempt, number, name, at, level, text, is_cut
  from logs
 where job_id in {list :jobs} and (tenant || '') = :tenant
   and (stored_at + 0, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at + 0, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
   and (cast(:name as text) is null or name = :name)
   and (cast(:levels as text) is null or level in {list :levels})
   and (cast(:text as text) is null or {has text :text})
 order by (stored_at + 0) {order}, job_id {order}, attempt {order}, number {order}
 limit :limit
