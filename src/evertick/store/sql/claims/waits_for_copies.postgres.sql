-- waits_for_copies: whether commits wait for a standby. Only PostgreSQL has standbys.
select current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local')
