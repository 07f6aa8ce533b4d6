-- Claims by queue. A queue holds the jobs of one function in one pool, so a worker reads only what it can run. Jobs that
-- wait for their time stand apart from those that may run, so however many wait, a claim does not see them.
--
-- `queue` is computed from pool and function (queue_of, see base/ids.py); `pool` is null for the default pool.
-- `stage` says where a pending job stands: waiting (for its time), ready, or suspect. `rank` is due_at less a minute for
-- each step of `priority`; jobs are claimed in its order. `size` is the length of `args` in bytes.

drop index jobs_due;
drop index jobs_suspect;
drop index jobs_blocked;
alter table jobs drop column blocked;
alter table jobs add column pool text;
alter table jobs add column queue integer not null default 0;
alter table jobs add column stage text not null default 'waiting';
alter table jobs add column priority integer not null default 0;
alter table jobs add column rank integer not null default 0;
alter table jobs add column size integer not null default 0;

update jobs
   set queue = queue_of('default', name), rank = due_at, size = length(cast(args as blob)),
       stage = case when crashes >= 2 then 'suspect' else 'waiting' end
 where state in ('pending', 'in_progress');

-- What may run. The size is read for each candidate, so the index has it.
create index jobs_ready on jobs (queue, tenant, rank, id, size) where state = 'pending' and stage = 'ready';
-- What waits for its time.
create index jobs_waiting on jobs (due_at, id) where state = 'pending' and stage = 'waiting';
-- What its workers did not survive; mostly empty.
create index jobs_suspect on jobs (due_at, id) where state = 'pending' and stage = 'suspect';

-- Of which app and release a worker is, and as JSON which functions and pools it serves.
alter table workers add column app text not null default '';
alter table workers add column release text not null default '';
alter table workers add column serves text;
