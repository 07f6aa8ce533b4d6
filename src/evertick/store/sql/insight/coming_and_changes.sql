-- coming_and_changes: what `coming_specs` finds, with 0 before it, and what `recent_changes` finds, with 1.
select 0, schedules, '', '', spec, '', 0
  from ({coming}) as specs
union all
select 1, at, actor, action, target, detail, is_history
  from ({changes}) as lines
