-- Finished jobs by their key, and failed ones by the time they failed.
-- oldest code: 9

-- afterwards:

create index concurrently if not exists history_by_key on history (tenant, key, state, (id || '')) where key is not null;
create index concurrently if not exists history_failed on history (tenant, completed_at) where state = 'failed';
