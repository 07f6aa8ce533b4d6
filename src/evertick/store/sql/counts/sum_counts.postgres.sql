-- sum_counts: add at most :limit changes to the kept counts. Returns how many there were. PostgreSQL's only.
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
