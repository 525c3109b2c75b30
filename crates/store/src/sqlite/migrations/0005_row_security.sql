-- Whom a change is about belongs to: history outlives its resources, so it cannot be asked of them. What went before
-- this step belongs to nobody, as nothing is left to tell. SQLite itself has no policies.
alter table changes add column tenancy text;
update changes set tenancy = (select r.tenancy from resources r where r.id = changes.resource_id)
where resource_id in (select id from resources where tenancy is not null);
