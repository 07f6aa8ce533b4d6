-- What is asked of a row of jobs that is the run of a workflow: whether its state is among :open_states; null for any. See
-- `RunView.of`.
   and (cast(:open_states as text) is null or :open_states like '%' || case
        when stage = 'paused' then 'paused' when attempt > 1 or attempt = 1 and state = 'pending' then 'running' else 'pending' end || '%')
