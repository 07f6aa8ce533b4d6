-- coming_and_changes: what `coming` finds, and what `recent_changes` finds, with 3.
select part, number, '', '', what, '', 0
  from ({coming}) as comes
union all
select 3, at, actor, action, target, detail, is_history
  from ({changes}) as lines
