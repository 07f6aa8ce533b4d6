-- add_activity: add to what is known of a span. SQLite runs it once a row.
insert into activity (tenant, name, at, source, ended, failed, canceled, retried, late, took)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (tenant, name, at, source)
   do update set ended = ended + excluded.ended, failed = failed + excluded.failed,
                 canceled = canceled + excluded.canceled, retried = retried + excluded.retried,
                 late = coalesce(excluded.late, late), took = coalesce(excluded.took, took)
