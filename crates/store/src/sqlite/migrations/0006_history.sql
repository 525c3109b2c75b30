-- Each change keeps the way back: `undo` is what the resource was before, as far as the change touched it, `last` the
-- whole of what was left when it went. From the newest state, undoing leads to the state after any kept version.
-- `touched` tells which parts that is, a bit for each, so that the way back leads over as few changes as it can. `size`
-- is the number of entries, so that a timeline is counted without reading them.
alter table changes add column size integer not null default 1;
alter table changes add column touched integer not null default 0;
alter table changes add column undo text;
alter table changes add column last text;
update changes set size = json_array_length(entries) where json_array_length(entries) <> 1;

-- Up to where the past was forgotten: whoever wants to know what came after an older version must look at all again.
-- Changes without a way back are no good for that.
create table history (
    singleton integer primary key default 1 check (singleton = 1),
    forgotten integer not null
);
insert into history (forgotten) select version from feed;

-- The answers to requests that named a key, so that a retry gets the same one. `key` is a fingerprint of the caller,
-- the path and the key, `body` that of what was asked.
create table retries (
    key blob primary key,
    body blob not null,
    at integer not null,
    answer text not null
) without rowid;
create index retries_by_age on retries (at);
