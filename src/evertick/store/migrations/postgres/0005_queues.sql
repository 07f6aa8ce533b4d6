-- Claims by queue. A queue holds the jobs of one function in one pool, so a worker reads only what it can run. Jobs that
-- wait for their time stand apart from those that may run, so however many wait, a claim does not see them.
--
-- `queue` is computed from pool and function (queue_of in base/ids.py, repeated here); `pool` is null for the
-- default pool. `stage` says where a pending job stands: waiting (for its time), ready, or suspect. `rank` is due_at less
-- a minute for each step of `priority`; jobs are claimed in its order. `size` is the length of `args` in bytes.

drop index jobs_due;
drop index jobs_suspect;
drop index jobs_blocked;
alter table jobs
    drop column blocked,
    add column pool text collate "C",
    add column queue bigint not null default 0,
    add column stage text collate "C" not null default 'waiting',
    add column priority smallint not null default 0,
    add column rank bigint not null default 0,
    add column size integer not null default 0;

update jobs
   set queue = ('x' || encode(substring(sha256(convert_to('default' || chr(10) || name, 'UTF8')) from 1 for 8), 'hex'))
               ::bit(64)::bigint & 4611686018427387903,
       rank = due_at, size = octet_length(args),
       stage = case when crashes >= 2 then 'suspect' else 'waiting' end
 where state in ('pending', 'in_progress');

create index jobs_ready on jobs (queue, tenant, rank, id) where state = 'pending' and stage = 'ready';
create index jobs_waiting on jobs (due_at, id) where state = 'pending' and stage = 'waiting';
create index jobs_suspect on jobs (due_at, id) where state = 'pending' and stage = 'suspect';

-- Of which app and release a worker is, and as JSON which functions and pools it serves.
alter table workers add column app text not null default '';
alter table workers add column release text not null default '';
alter table workers add column serves text;
