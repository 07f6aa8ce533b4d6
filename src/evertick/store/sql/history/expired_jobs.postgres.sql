-- expired_jobs: as SQLite's, but locked; those that another pruner removes are skipped.
select id
  from history
 where completed_at < :before
 order by completed_at
 limit :limit
   for update skip locked
