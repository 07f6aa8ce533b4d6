-- Finished jobs by their key, and failed ones by the time they failed.
-- oldest code: 9

create index history_by_key on history (tenant, key, state, id) where key is not null;
create index history_failed on history (tenant, completed_at) where state = 'failed';
