-- Who of several works on what. `tenancy` is whose callers share the group: a tenant, or nobody where there are none and
-- for parts of the system. What is over stays for a while, so that its next holder gets a later version.
create table leases (
    tenancy text not null,
    group_name text not null,
    name text not null,
    holder text not null,
    expires integer not null,
    version integer not null,
    primary key (tenancy, group_name, name)
) without rowid;
create index leases_by_expiry on leases (expires);
