-- change_counts: jobs were written. A change is a row of its own, so that no two transactions meet in it.
insert into job_count_changes (tenant, name, unfinished, success, failed, canceled, retried)
select tenant, name, unfinished, success, failed, canceled, retried
  from json_to_recordset(:rows::json)
       as r (tenant text, name text, unfinished bigint, success bigint, failed bigint, canceled bigint,
             retried bigint)
