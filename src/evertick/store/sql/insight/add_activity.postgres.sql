-- add_activity: add to what is known of spans, in one round trip.
insert into activity (tenant, name, at, source, ended, failed, canceled, retried, late, took)
select tenant, name, at, source, ended, failed, canceled, retried, late, took
  from json_to_recordset(:rows::json)
       as r (tenant text, name text, at bigint, source text, ended bigint, failed bigint, canceled bigint,
             retried bigint, late text, took text)
 order by tenant, name, at
on conflict (tenant, name, at, source)
   do update set ended = activity.ended + excluded.ended, failed = activity.failed + excluded.failed,
                 canceled = activity.canceled + excluded.canceled, retried = activity.retried + excluded.retried,
                 late = coalesce(excluded.late, activity.late), took = coalesce(excluded.took, activity.took)
