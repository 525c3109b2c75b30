-- Whom the status of a resource belongs to, so that the row itself tells a policy whether it may be shown; before, each was
-- looked up in resources again. The policy that did so goes, and the start that runs this step makes the other (wall.rs).
alter table resource_status add column tenancy text collate "C";
update resource_status s set tenancy = r.tenancy from resources r where r.id = s.resource_id and r.tenancy is not null;
drop policy if exists one_tenant on resource_status;
