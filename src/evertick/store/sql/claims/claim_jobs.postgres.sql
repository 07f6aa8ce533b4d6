-- claim_jobs: lease ready jobs: behind each head (:queues, :tenants, :ranks) up to its share (:limits), at most :limit in
-- all, and at most :bytes of arguments unless the first job alone has more; the shares take turns, so that large arguments
-- of one leave room for the others. A claimed job belongs to (worker, attempt) for as long as the worker's lease holds;
-- every later write repeats that pair. Reads the index jobs_ready.
-- PostgreSQL's own: one statement, and rows that another worker is claiming are skipped, not waited for. The rank to
-- begin at spares it the entries of claimed jobs, which stay in the index until the next VACUUM.
with candidate as materialized (
    select job.id, job.size, share.place, row_number() over (partition by share.place order by job.rank, job.id) as turn
      from unnest(:queues::bigint[], :tenants::text[], :ranks::bigint[], :limits::int[])
           with ordinality as share (queue, tenant, rank, jobs, place)
     cross join lateral (select id, size, rank
                           from jobs
                          where queue = share.queue and tenant = share.tenant and state = 'pending' and stage = 'ready'
                            and rank >= share.rank
                          order by rank, id
                          limit share.jobs
                            for update skip locked) as job
), counted as (
    select id, sum(size) over in_turn as size_so_far, row_number() over in_turn as position
      from candidate
    window in_turn as (order by turn, place)
)
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = any (array(select id from counted where size_so_far <= :bytes or position = 1))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
