-- Lists of finished runs of workflows, whatever other jobs lie between them.
-- oldest code: 12

create index history_runs on history (tenant, state, id) where kind = 'workflow';
