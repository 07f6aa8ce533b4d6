-- Jobs whose workers died again and again stand in an index of their own, so that claims pass them by.

drop index jobs_due;
create index jobs_due on jobs (kind, tenant, due_at, id) where state = 'pending' and blocked = 0 and crashes < 2;
create index jobs_suspect on jobs (kind, due_at, id) where state = 'pending' and blocked = 0 and crashes >= 2;
