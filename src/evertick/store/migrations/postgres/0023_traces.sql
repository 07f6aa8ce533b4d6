-- The trace context that a job carries from the transaction that scheduled it to its attempts; null unless traced.
-- oldest code: 17

alter table jobs add column trace text collate "C";
