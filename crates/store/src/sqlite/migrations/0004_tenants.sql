-- Whom a resource belongs to: the dimensions of its tenant as a JSON object with its keys in order; null where
-- tenants are not kept apart. It never changes.
alter table resources add column tenancy text;

-- Roots of different tenants may share a name.
drop index resources_active_name;
create unique index resources_active_name on resources (kind, coalesce(owner_id, tenancy, ''), name)
    where deleted_time is null;
