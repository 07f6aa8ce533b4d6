-- activity_by_slot: what all functions of a tenant did in each span of :slot milliseconds since :day_ago, and how late it was.
select slot, ended, failed, canceled, retried, late
  from ({slots}) as slots
 order by slot
