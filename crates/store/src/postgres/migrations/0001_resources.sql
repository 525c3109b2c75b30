-- One row: the version counter. Whoever writes holds its lock from before the first read to the
-- commit, so versions are commit order and every decision is made on committed state.
create table feed (
    singleton boolean primary key default true check (singleton),
    version bigint not null
);
insert into feed (version) values (0);

-- The wide row: what callers write. JSON is kept as text because it is passed through unparsed,
-- and because jsonb would rewrite numbers.
create table resources (
    id uuid primary key,
    kind text collate "C" not null,
    name text collate "C" not null,
    owner_id uuid references resources (id),
    ancestors text collate "C" not null,
    generation bigint not null,
    spec text not null,
    labels text not null,
    refs text not null,
    created_time timestamptz not null,
    created_by text collate "C" not null,
    updated_time timestamptz not null,
    updated_by text collate "C" not null,
    deleted_time timestamptz,
    deleted_by text collate "C"
) with (fillfactor = 80); -- room beside a row keeps its updates off the indexes
-- A name is unique among the active resources of one kind, for children per owner. One expression
-- rather than three columns: no other index can then be mistaken for this one, not even by a plan
-- that was made when the table was empty.
create unique index resources_active_name on resources
    ((kind || '/' || coalesce(owner_id::text, '') || '/' || name))
    where deleted_time is null;
-- The default order of lists: of one kind, of one owner's children, of everything.
create index resources_by_kind on resources (kind, created_time, id);
create index resources_by_owner on resources (owner_id, kind, created_time, id) where owner_id is not null;
create index resources_by_creation on resources (created_time, id);

-- How many resources of each kind there are, kept by every commit that changes it: counting them
-- would read the whole kind for each page of its list.
create table kind_counts (
    kind text collate "C" primary key,
    active bigint not null,
    finalizing bigint not null
);

-- The narrow row: what aggregation writes, apart from the wide one so that it stays cheap. Rows come
-- and go in the transaction of their resource, so a foreign key would guard nothing; with one, this
-- row took twice as long to insert as the wide one.
create table resource_status (
    resource_id uuid primary key,
    version bigint not null,
    conditions text not null
) with (fillfactor = 80);

-- Who refers to whom. `resources.refs` holds the same for reading; this is the way back.
create table resource_references (
    source_id uuid not null references resources (id) on delete cascade,
    ref_type text collate "C" not null,
    target_id uuid not null references resources (id),
    primary key (source_id, ref_type, target_id)
);
create index resource_references_by_target on resource_references (target_id, ref_type);

-- History: one row per version. Not tied to `resources`: it outlives them.
create table changes (
    version bigint primary key,
    resource_id uuid not null,
    kind text collate "C" not null,
    at timestamptz not null,
    actor text not null,
    request_id text not null,
    entries text not null
);
create index changes_by_resource on changes (resource_id, version);
