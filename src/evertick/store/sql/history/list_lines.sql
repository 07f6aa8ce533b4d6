-- list_lines: the lines that a tenant's functions have logged, in the order in which they were stored: beyond a place and
-- up to another one, at most :limit. Reads the index logs_stored.
select stored_at, job_id, attempt, number, name, at, level, text, is_cut
  from logs
 where tenant = :tenant
   and (stored_at, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
   and (cast(:name as text) is null or name = :name)
   and (cast(:levels as text) is null or level in {list :levels})
   and (cast(:text as text) is null or {has text :text})
 order by stored_at {order}, job_id {order}, attempt {order}, number {order}
 limit :limit
