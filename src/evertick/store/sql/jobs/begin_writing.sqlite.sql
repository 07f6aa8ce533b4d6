-- begin_writing: take the write lock, and change nothing. SQLite's own: a transaction that has read first cannot write any
-- more once another one has written.
delete from jobs
 where false
