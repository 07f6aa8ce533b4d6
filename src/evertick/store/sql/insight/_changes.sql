-- The newest lines of the histories of a tenant's schedules, and of what the audit log has of it. Reads the
-- index schedule_history_newest, whose order PostgreSQL would not ask for if the tenant were one: it would look for it
-- among the newest of all. The word of a schedule's history begins as that of the audit log does.
select at, actor, 'schedule.' || action as action, schedule_id as target, detail, 1 as is_history
  from (select *
          from schedule_history
         where tenant between :tenant and :tenant
         order by tenant desc, id desc
         limit :newest) as histories
union all
select at, actor, action, target, '', 0
  from (select *
          from audit_log
         where tenant = :tenant
         order by id desc
         limit :newest) as audited
