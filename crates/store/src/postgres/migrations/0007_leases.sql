-- Who of several works on what. `tenancy` is whose callers share the group: a tenant, or nobody where there are none and
-- for parts of the system. What is over stays for a while, so that its next holder gets a later version.
create table leases (
    tenancy text collate "C" not null,
    group_name text collate "C" not null,
    name text collate "C" not null,
    holder text not null,
    expires timestamptz not null,
    version bigint not null,
    primary key (tenancy, group_name, name)
) with (fillfactor = 50);
create index leases_by_expiry on leases (expires);
