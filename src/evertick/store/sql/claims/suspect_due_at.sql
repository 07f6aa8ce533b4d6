-- suspect_due_at: when the earliest pending suspect of :kind is due. Reads the index jobs_suspect, which is mostly empty.
select due_at
  from jobs
 where kind = :kind and state = 'pending' and blocked = 0 and crashes >= 2
 order by due_at, id
 limit 1
