-- Lists of the runs that no other run has called with `step.workflow`, whatever children lie between them. Such a call is
-- known by its completion, whose kind is "step". A name that stands before the kind has its quotes escaped.
-- oldest code: 17

-- afterwards:

create index concurrently if not exists history_roots on history (tenant, state, (id || ''))
 where kind = 'workflow'
   and coalesce(substr(on_complete, position('", "kind": "' in on_complete) + 12, 5), '') <> 'step"';
create index concurrently if not exists jobs_roots on jobs (tenant, (id || ''))
 where kind = 'workflow'
   and coalesce(substr(on_complete, position('", "kind": "' in on_complete) + 12, 5), '') <> 'step"';
