-- The version of a schedule at each line of its history: one that is created under the id of a deleted one goes on
-- counting, so that who has read the old one does not change the new one. Null in lines of older code.
-- oldest code: 17

alter table schedule_history add column version bigint;
