//! `spec.<a>.<b>…`: any depth, any key, elements by number, and values by their type.

use super::*;

async fn a_spec_path_addresses_any_key_and_element(app: &App) {
    Fleet::built(app).await;
    all_find(
        app,
        "/clusters",
        "alpha",
        &[
            "spec.net.cidr = '10.0.0.0/8'",
            "spec['net'].cidr = '10.0.0.0/8'",
            "spec['net']['cidr'] = '10.0.0.0/8'",
            "spec.net.a.b.c.d.e = 'deep'",
            "spec['odd key']['x.y'] = 1",
            "spec['odd key'][\"it's\"] = 'quoted'",
            "spec['odd key']['it''s'] = 'quoted'",
            "spec['odd key'][''] = 'empty'",
            "spec['odd key']['[0]'] = 'bracket'",
            "spec['odd key']['$'] = 'dollar'",
            "spec['odd key']['größe'] = 'large'",
            "spec.a/b = 'slash'",
            "spec.a-b = 'dash'",
            "spec.a_b = 'under'",
            "spec['a/b'] = 'slash'",
            "spec.9 = 'nine'",
            "spec['9'] = 'nine'",
            "spec.and = 'word'",
            "spec.In.not.null = 'words'",
            "spec.In.not.null is not null",
            "spec.list[0] = 10",
            "spec.list.0 = 10",
            "spec.list[1] = 'ten'",
            "spec.list[2].a = 'x'",
            "spec.list.2.a = 'x'",
            "spec.list[2].b[0][0] = true",
            "spec.list.2.b.0.0 = true",
            "spec.empty = ''",
            "spec.zero = 0",
            "spec.no = false",
            "spec.list is not null and not spec.list = '10'",
            "spec.object is not null",
            "spec.array is not null",
            "spec.net.a.b is not null",
            "spec.list[2].b[0] is not null",
            "spec.empty is not null",
        ],
    )
    .await;
    all_find(
        app,
        "/clusters",
        "",
        &[
            "spec.list[3] is not null",
            "spec.list[4] is not null",
            "spec.list.99999999999999999999 is not null",
            "spec.list.length is not null",
            "spec.list.a is not null",
            "spec.array[0] is not null",
            "spec.array.0 is not null",
            "spec.region.0 is not null",
            "spec.region.x is not null",
            "spec.size.0 is not null",
            "spec.net.0 is not null",
            "spec.nothing is not null",
            "spec.nothing.x is not null",
            "spec.Net.cidr is not null",
            "spec['net.cidr'] is not null",
            "spec['list[0]'] is not null",
            "spec['$.region'] is not null",
            "spec['*'] is not null",
        ],
    )
    .await;
    let deep = format!("spec{} is null", ".a".repeat(2000));
    assert_eq!(found(app, "/clusters", &deep).await, "alpha beta delta gamma");
}

async fn a_value_of_another_type_does_not_match_and_never_fails(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            // alpha has 3, beta 10, delta '3', gamma nothing.
            ("spec.size = 3", "alpha"),
            ("spec.size = '3'", "delta"),
            ("spec.size != 3", "beta"),
            ("spec.size != '4'", "delta"),
            ("spec.size > 2", "alpha beta"),
            ("spec.size > '2'", "delta"),
            ("spec.size < 100", "alpha beta"),
            ("spec.size in [3]", "alpha"),
            ("spec.size not in [3]", "beta"),
            ("spec.size not in ['4']", "delta"),
            ("spec.size like '%'", "delta"),
            ("spec.size not like '4'", "delta"),
            ("spec.size ilike '3'", "delta"),
            ("spec.size between 0 and 100", "alpha beta"),
            ("spec.size not between 0 and 5", "beta"),
            ("spec.size not between '4' and '5'", "delta"),
            ("spec.size = true", ""),
            ("spec.size != true", ""),
            ("spec.size = false or spec.size != false", ""),
            ("not spec.size = 3", "beta delta gamma"),
            ("not spec.size != 3", "alpha delta gamma"),
            ("not spec.size < 100", "delta gamma"),
            // alpha has true, beta false, delta 'true'.
            ("spec.on = true", "alpha"),
            ("spec.on = false", "beta"),
            ("spec.on != true", "beta"),
            ("spec.on != false", "alpha"),
            ("spec.on = 'true'", "delta"),
            ("spec.on in [true, false]", "alpha beta"),
            ("spec.on not in [true]", "beta"),
            ("spec.on not in [true, false]", ""),
            ("spec.on = 1", ""),
            ("spec.on != 1", ""),
            ("spec.on like 't%'", "delta"),
            ("not spec.on = true", "beta delta gamma"),
            ("spec.ratio = 0.1", "alpha"),
            ("spec.ratio = '0.1'", "delta"),
            // Objects and lists are neither equal nor unequal to anything.
            ("spec.net = '10.0.0.0/8'", ""),
            ("spec.net != 'x'", ""),
            ("spec.object = '' or spec.object != '' or spec.object like '%'", ""),
            ("spec.object = 0 or spec.object >= 0 or spec.object < 0", ""),
            ("spec.array not in [1] or spec.array not in ['x'] or spec.array != true", ""),
            ("spec.list = 10", ""),
            ("spec.list = '10'", "delta"),
            ("spec.list.0 = 10", "alpha"),
            ("spec.list like '%'", "delta"),
            // A JSON null is no value.
            ("spec.region is null", "delta gamma"),
            ("spec.region is not null", "alpha beta"),
            ("spec.region != 'x'", "alpha beta"),
            ("spec.region not in ['x']", "alpha beta"),
            ("spec.nothing = 'null'", ""),
            ("spec.nothing = 0", ""),
            ("spec.zero = ''", ""),
            ("spec.zero = false", ""),
            ("spec.no = 0", ""),
            ("spec.no = 'false'", ""),
            ("spec.empty = 0", ""),
            ("spec.empty is null", "beta delta gamma"),
            ("spec.text = 'fine'", "delta"),
            ("spec.text ilike 'fine'", "alpha beta delta"),
        ],
    )
    .await;
}

both_stores!(
    config = CATALOG;
    a_spec_path_addresses_any_key_and_element,
    a_value_of_another_type_does_not_match_and_never_fails,
);
