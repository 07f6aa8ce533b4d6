-- As which job a finished one runs again, and how many failed ones do. An earlier release would run jobs again without writing
-- it down, and remove them without counting it, so it must not go on beside this one.

alter table history add column retried_as text collate "C";
alter table job_counts add column retried bigint not null default 0;
alter table job_count_changes add column retried bigint not null default 0;

-- So far it stood among the remembered calls.
update history
   set retried_as = calls.result
  from calls
 where calls.key like 'evertick retry %' and history.id = substr(calls.key, 16) and history.tenant = calls.tenant;
insert into job_count_changes (tenant, name, unfinished, success, failed, canceled, retried)
select tenant, name, 0, 0, 0, 0, count(*)
  from history
 where state = 'failed' and retried_as is not null
 group by tenant, name;

-- afterwards:

-- Lists of failed jobs that were not run again.
create index concurrently if not exists history_unretried on history (tenant, state, (id || ''))
 where state = 'failed' and retried_as is null;
