-- evaluated_before: when a worker last evaluated a time of a schedule of any tenant before :before. Reads the index
-- occurrences_decided from there backwards.
select decided_at
  from occurrences
 where decided_at < :before and origin = 'schedule'
 order by decided_at desc
 limit 1
