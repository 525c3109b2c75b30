-- The words by which values are packed that this installation has learned from its own rows (packed.rs). The first byte of
-- a value is the number of its dictionary; 1 is in the program. A row is never changed nor removed: there may be values
-- that can be read with no other.
create table dictionaries (
    number smallint primary key check (number between 2 and 255),
    words bytea not null,
    made_time timestamptz not null
);
