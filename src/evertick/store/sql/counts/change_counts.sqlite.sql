-- change_counts: jobs were written, ended or removed. SQLite runs it once for each function of a tenant.
insert into job_counts (tenant, name, unfinished, success, failed, canceled, retried)
values (?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, name)
   do update set unfinished = unfinished + excluded.unfinished, success = success + excluded.success,
                 failed = failed + excluded.failed, canceled = canceled + excluded.canceled,
                 retried = retried + excluded.retried
