//! `labels.<key>`: any valid key, named whole.

use super::*;

async fn a_label_is_compared_as_a_text(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("labels.env = 'production'", "alpha"),
            ("labels.env = 'Production'", ""),
            ("labels.env = 'production '", ""),
            ("labels.env != 'production'", "beta delta"),
            ("labels.env < 'production'", "delta"),
            ("labels.env <= 'production'", "alpha delta"),
            ("labels.env > 'production'", "beta"),
            ("labels.env >= 'production'", "alpha beta"),
            ("labels.env between 'dev' and 'production'", "alpha delta"),
            ("labels.env not between 'dev' and 'production'", "beta"),
            ("labels.env like 'p%n'", "alpha"),
            ("labels.env like '%'", "alpha beta delta"),
            ("labels.env not like 'p%n'", "beta delta"),
            ("labels.env ilike 'STAG%'", "beta"),
            ("labels.env not ilike 'STAG%'", "alpha delta"),
            ("labels.tier = ''", "alpha"),
            ("labels.tier != 'x'", "alpha"),
            ("labels.tier like ''", "alpha"),
            ("labels.tier like '_'", ""),
            ("labels.rank < 'a'", "alpha"),
            ("labels.rank = 'b'", ""),
            ("labels.rank ilike 'b'", "alpha"),
            ("labels.nothing = ''", ""),
            ("labels.nothing != ''", ""),
            ("labels.env = 'production' and labels.rank = 'B' and labels.tier = ''", "alpha"),
            ("labels.env = 'production' and labels.env = 'dev'", ""),
            ("labels.env = 'production' or labels.rank = 'a'", "alpha beta"),
            ("labels.env = 'production' and labels.rank in ['a', 'B']", "alpha"),
        ],
    )
    .await;
}

async fn a_key_is_named_whole_with_or_without_brackets(app: &App) {
    for (name, key) in [
        ("n1", "a.b/c"),
        ("n2", "a.b"),
        ("n3", "a"),
        ("n4", "c"),
        ("n5", "x-y_z.1"),
        ("n6", "1"),
        ("n7", "and"),
        ("n8", "example.com/in"),
        ("n9", "A"),
    ] {
        let body = json!({"kind": "Network", "name": name, "labels": {key: "v"}, "spec": {}});
        app.create("/networks", &body).await;
    }
    finds(
        app,
        "/networks",
        &[
            ("labels.a.b/c = 'v'", "n1"),
            ("labels['a.b/c'] = 'v'", "n1"),
            ("labels[\"a.b/c\"] = 'v'", "n1"),
            ("labels[`a.b/c`] = 'v'", "n1"),
            ("labels.a.b = 'v'", "n2"),
            ("labels['a.b'] is not null", "n2"),
            ("labels.a = 'v'", "n3"),
            ("labels['a'] = 'v'", "n3"),
            ("labels.c = 'v'", "n4"),
            ("labels.x-y_z.1 = 'v'", "n5"),
            ("labels.1 = 'v'", "n6"),
            ("labels['1'] = 'v'", "n6"),
            ("labels.and = 'v'", "n7"),
            ("labels.and='v' and labels.and='v'", "n7"),
            ("labels.example.com/in = 'v'", "n8"),
            ("labels.A = 'v'", "n9"),
            ("not labels.a is null or not labels.A is null", "n3 n9"),
        ],
    )
    .await;
    // Each in the ways that look into the labels one by one too.
    for (key, name) in
        [("a.b/c", "n1"), ("a.b", "n2"), ("a", "n3"), ("x-y_z.1", "n5"), ("1", "n6"), ("and", "n7")]
    {
        for form in
            ["= 'v'", "!= 'x'", "in ['v', 'w']", "not in ['x', 'y']", "like 'v'", "is not null", ">= 'v'"]
        {
            all_find(
                app,
                "/networks",
                name,
                &[&format!("labels.{key} {form}"), &format!("labels['{key}'] {form}")],
            )
            .await;
        }
    }
    let longest = format!("{}.com/{}", "a".repeat(63), "b".repeat(63));
    let body = json!({"kind": "Network", "name": "long", "labels": {longest.as_str(): "v"}, "spec": {}});
    app.create("/networks", &body).await;
    all_find(
        app,
        "/networks",
        "long",
        &[&format!("labels.{longest} = 'v'"), &format!("labels['{longest}'] = 'v'")],
    )
    .await;
}

async fn a_key_that_no_label_can_have_is_refused(app: &App) {
    for key in ["a b", "", "-a", "a-", "a/b/c", "/a", "a/", "Up.Case/a", ".a", "ä", "a$", &"a".repeat(64)] {
        let quoted = format!("labels['{key}'] = 'x'");
        let refused = mistake(app, "/networks", &quoted).await;
        assert_eq!(refused.position, 8, "{quoted}: {}", refused.said);
    }
    for search in
        ["labels = 'x'", "labels is null", "labels. = 'x'", "labels.-a = 'x'", "labels.a/b/c is null"]
    {
        mistake(app, "/networks", search).await;
    }
}

both_stores!(
    config = CATALOG;
    a_label_is_compared_as_a_text,
    a_key_is_named_whole_with_or_without_brackets,
    a_key_that_no_label_can_have_is_refused,
);
