-- Whom a change is about belongs to: history outlives its resources, so it cannot be asked of them. What went before
-- this step belongs to nobody, as nothing is left to tell. The policies are no step of the schema: they stand where
-- tenants are kept apart, and are looked after at every start (wall.rs).
alter table changes add column tenancy text collate "C";
update changes c set tenancy = r.tenancy from resources r where r.id = c.resource_id and r.tenancy is not null;
