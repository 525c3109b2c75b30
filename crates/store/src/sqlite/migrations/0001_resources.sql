-- One row: the version counter. SQLite has one writer, so versions are commit order.
create table feed (
    singleton integer primary key default 1 check (singleton = 1),
    version integer not null
);
insert into feed (version) values (0);

-- The wide row: what callers write. Ids are text so that people can read the file; times are
-- microseconds since 1970.
create table resources (
    id text primary key not null,
    kind text not null,
    name text not null,
    owner_id text references resources (id) deferrable initially deferred,
    ancestors text not null,
    generation integer not null,
    spec text not null,
    labels text not null,
    refs text not null,
    created_time integer not null,
    created_by text not null,
    updated_time integer not null,
    updated_by text not null,
    deleted_time integer,
    deleted_by text
);
-- A name is unique among the active resources of one kind, for children per owner.
create unique index resources_active_name on resources (kind, coalesce(owner_id, ''), name)
    where deleted_time is null;
-- The default order of lists: of one kind, of one owner's children, of everything.
create index resources_by_kind on resources (kind, created_time, id);
create index resources_by_owner on resources (owner_id, kind, created_time, id) where owner_id is not null;
create index resources_by_creation on resources (created_time, id);

-- How many resources of each kind there are, kept by every commit that changes it: counting them
-- would read the whole kind for each page of its list.
create table kind_counts (
    kind text primary key not null,
    active integer not null,
    finalizing integer not null
);

-- The narrow row: what aggregation writes, apart from the wide one so that it stays cheap.
create table resource_status (
    resource_id text primary key not null,
    version integer not null,
    conditions text not null
);

-- Who refers to whom. `resources.refs` holds the same for reading; this is the way back.
create table resource_references (
    source_id text not null references resources (id) on delete cascade,
    ref_type text not null,
    target_id text not null references resources (id) deferrable initially deferred,
    primary key (source_id, ref_type, target_id)
);
create index resource_references_by_target on resource_references (target_id, ref_type);

-- History: one row per version. Not tied to `resources`: it outlives them.
create table changes (
    version integer primary key,
    resource_id text not null,
    kind text not null,
    at integer not null,
    actor text not null,
    request_id text not null,
    entries text not null
);
create index changes_by_resource on changes (resource_id, version);
