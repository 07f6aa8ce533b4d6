-- confirm: something to commit, which changes nothing: a message in the log that nothing reads. Only PostgreSQL has standbys.
select pg_logical_emit_message(true, 'evertick', '')
