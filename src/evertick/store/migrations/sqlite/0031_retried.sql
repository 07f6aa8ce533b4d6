-- As which job a finished one runs again, and how many failed ones do. An earlier release would run jobs again without writing
-- it down, and remove them without counting it, so it must not go on beside this one.

alter table history add column retried_as text;
alter table job_counts add column retried integer not null default 0;

-- So far it stood among the remembered calls.
update history
   set retried_as = (select result from calls where calls.tenant = history.tenant and calls.key = 'evertick retry ' || history.id)
 where state in ('failed', 'canceled');
update job_counts
   set retried = (select count(*)
                    from history
                   where history.tenant = job_counts.tenant and history.name = job_counts.name and state = 'failed'
                     and retried_as is not null);

-- Lists of failed jobs that were not run again.
create index history_unretried on history (tenant, state, id) where state = 'failed' and retried_as is null;
