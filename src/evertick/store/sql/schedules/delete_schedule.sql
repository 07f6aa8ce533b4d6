-- delete_schedule: the schedule goes; its runs and its ledger stay.
delete from schedules
 where tenant = :tenant and id = :id
