-- edge_lines: where a look through :skip lines of a tenant ends, if there are more.
select stored_at, job_id, attempt, number
  from logs
 where tenant = :tenant
   and (stored_at, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
 order by stored_at {order}, job_id {order}, attempt {order}, number {order}
 limit 1 offset :skip
