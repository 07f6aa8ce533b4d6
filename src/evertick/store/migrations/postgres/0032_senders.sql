-- Who sent an event to a run, in the inbox and, once it is taken, in the journal; and of which run one is the restart.
-- oldest code: 31

alter table workflow_inbox add column sender text collate "C";
alter table workflow_journal add column sender text collate "C";
alter table workflow_runs add column restarted_from text collate "C";
