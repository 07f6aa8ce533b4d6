-- pool_endings: a tenant's newest :limit jobs that have ended: pool, state, when each was due, started and ended, and as
-- which job it runs again. A run of a workflow goes through its pool many times, so it is counted, and has no start here.
-- Reads the index history_by_state.
select pool, state, due_at, case when kind = 'workflow' then null else started_at end, completed_at, retried_as
  from ({for state in success, failed, canceled}
        select *
          from (select id, kind, pool, state, due_at, started_at, completed_at, retried_as
                  from history
                 where tenant = :tenant and state = '{state}'
                 order by {id} desc
                 limit :limit) as {state}
        {then union all}) as ended
 order by id desc
 limit :limit
