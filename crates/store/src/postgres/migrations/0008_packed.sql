-- What a change tells and what an adapter reports, as one short value (packed.rs). Rows from before this step keep their
-- texts in the columns that are empty from here on: changes until they are too old, reports until they say something
-- new. What is packed is not worth another try of PostgreSQL's.
alter table changes add column packed bytea;
alter table changes alter column packed set storage external;
alter table changes alter column entries set default '';
alter table reports add column packed bytea;
alter table reports alter column packed set storage external;
alter table reports alter column conditions set default '';

-- Smaller rows need less room beside them: a tenth of a page takes a few reports, a quarter one more row of conditions.
alter table reports set (fillfactor = 90);
alter table resource_status set (fillfactor = 75);
