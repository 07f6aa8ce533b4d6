-- add_pool_activity: add to what is known of spans of pools. How late they were is of the whole span so far. SQLite runs it once a row.
insert into pool_activity (tenant, pool, at, source, ended, failed, canceled, retried, late)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, pool, at, source)
   do update set ended = ended + excluded.ended, failed = failed + excluded.failed,
                 canceled = canceled + excluded.canceled, retried = retried + excluded.retried,
                 late = coalesce(excluded.late, late)
