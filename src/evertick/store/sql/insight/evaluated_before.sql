-- evaluated_before: when a worker last evaluated a time of a schedule of any tenant before each moment in the JSON list
-- :moments. Reads the index occurrences_decided from there backwards.
select cast(m.each as bigint),
       (select decided_at
          from occurrences
         where decided_at < cast(m.each as bigint) and origin = 'schedule'
         order by decided_at desc
         limit 1)
  from {each :moments} as m
