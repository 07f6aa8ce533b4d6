-- add_pool_activity: as SQLite's, in one round trip.
insert into pool_activity (tenant, pool, at, source, ended, failed, canceled, retried, late)
select tenant, pool, at, source, ended, failed, canceled, retried, late
  from json_to_recordset(:rows::json)
       as r (tenant text, pool text, at bigint, source text, ended bigint, failed bigint, canceled bigint,
             retried bigint, late text)
 order by tenant, pool, at
on conflict (tenant, pool, at, source)
   do update set ended = pool_activity.ended + excluded.ended, failed = pool_activity.failed + excluded.failed,
                 canceled = pool_activity.canceled + excluded.canceled,
                 retried = pool_activity.retried + excluded.retried,
                 late = coalesce(excluded.late, pool_activity.late)
