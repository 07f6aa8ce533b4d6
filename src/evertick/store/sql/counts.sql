-- name: change_counts (postgres)
-- Count written jobs. A change is a separate row, so that no two transactions write the same row.
insert into job_count_changes (tenant, name, unfinished, success, failed, canceled, retried)
select tenant, name, unfinished, success, failed, canceled, retried
  from json_to_recordset(:rows::json)
       as r (tenant text, name text, unfinished bigint, success bigint, failed bigint, canceled bigint,
             retried bigint)

-- name: change_counts (sqlite)
-- Count jobs that were written, ended or removed. SQLite runs it once for each function of a tenant.
insert into job_counts (tenant, name, unfinished, success, failed, canceled, retried)
values (?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, name)
   do update set unfinished = unfinished + excluded.unfinished, success = success + excluded.success,
                 failed = failed + excluded.failed, canceled = canceled + excluded.canceled,
                 retried = retried + excluded.retried

-- name: count_jobs
-- How many jobs each function of a tenant has: unfinished ones, how many of them are running actions, ended ones, and
-- how many of the failed ones were retried. SQLite keeps one row for each, PostgreSQL also the changes since they were
-- summed. Running jobs are not counted in a row: they are read from the index jobs_running, which has only claimed
-- jobs.
select name, cast(sum(unfinished) as bigint), cast(sum(running) as bigint), cast(sum(success) as bigint),
       cast(sum(failed) as bigint), cast(sum(canceled) as bigint), cast(sum(retried) as bigint)
  from (select name, unfinished, 0 as running, success, failed, canceled, retried from {kept counts} where tenant = :tenant
           and (cast(:name as text) is null or name = :name)
        union all
        select name, 0, 1, 0, 0, 0, 0 from {running}
         where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant
           and (cast(:name as text) is null or name = :name)) as counts
 group by name

-- name: drop_empty_counts
-- Remove functions without jobs. Reads the index job_counts_empty.
delete from job_counts
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0 and retried = 0

-- name: sum_counts (postgres)
-- Add at most :limit changes to the kept counts. Returns how many there were. PostgreSQL's only.
-- In the order of the key, so that two workers who sum at once do not wait for each other in a circle.
with taken as (
    delete from job_count_changes
     where ctid = any (array(select ctid
                               from job_count_changes
                              limit :limit
                                for update skip locked))
    returning tenant, name, unfinished, success, failed, canceled, retried
), summed as (
    insert into job_counts (tenant, name, unfinished, success, failed, canceled, retried)
    select tenant, name, sum(unfinished), sum(success), sum(failed), sum(canceled), sum(retried)
      from taken
     group by tenant, name
     order by tenant, name
    on conflict (tenant, name)
       do update set unfinished = job_counts.unfinished + excluded.unfinished,
                     success = job_counts.success + excluded.success,
                     failed = job_counts.failed + excluded.failed,
                     canceled = job_counts.canceled + excluded.canceled,
                     retried = job_counts.retried + excluded.retried
)
select count(*)
  from taken

-- name: unfinished_jobs
-- How many jobs of a tenant have not ended. SQLite keeps one row for each function, PostgreSQL also the changes since
-- they were summed.
select cast(coalesce(sum(unfinished), 0) as bigint)
  from {kept counts}
 where tenant = :tenant
