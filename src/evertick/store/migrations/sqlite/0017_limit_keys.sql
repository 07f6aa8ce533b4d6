-- Keys of jobs, such as a customer, of which a pool may run some at a time. An earlier release would not keep that limit, so
-- it must not go on beside this one.

alter table jobs add column limit_key text;
alter table history add column limit_key text;
alter table pool_limits add column per_key integer;

-- Pending jobs with a key. Those that are due while their key is full have the stage `held`.
create index jobs_by_limit_key on jobs (stage, queue, tenant, limit_key, rank, id)
 where state = 'pending' and limit_key is not null;
