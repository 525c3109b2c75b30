-- What a change tells and what an adapter reports, as one short value (packed.rs). Rows from before this step keep their
-- texts in the columns that are empty from here on: changes until they are too old, reports until they say something
-- new.
alter table changes add column packed blob;
alter table reports add column packed blob;
