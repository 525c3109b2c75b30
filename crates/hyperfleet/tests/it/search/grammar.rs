//! Each row of the grammar, how tightly its words bind, and how they may be written.

use super::*;

const ALL: &str = "alpha beta delta gamma";

async fn comparisons_are_by_order_and_both_spellings_work(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("generation = 2", "beta"),
            ("generation == 2", "beta"),
            ("generation != 2", "alpha delta gamma"),
            ("generation <> 2", "alpha delta gamma"),
            ("generation < 2", "alpha delta gamma"),
            ("generation <= 2", ALL),
            ("generation <= 1", "alpha delta gamma"),
            ("generation > 1", "beta"),
            ("generation >= 1", ALL),
            ("generation >= 2", "beta"),
            ("generation>=2", "beta"),
            ("generation > 2", ""),
            ("name < 'beta'", "alpha"),
            ("name <= 'beta'", "alpha beta"),
            ("name > 'beta'", "delta gamma"),
            ("name >= 'beta'", "beta delta gamma"),
            ("name='alpha'", "alpha"),
            ("name=='alpha'", "alpha"),
            ("name!='alpha'", "beta delta gamma"),
            ("name<>'alpha'", "beta delta gamma"),
        ],
    )
    .await;
}

async fn lists_stand_in_brackets_or_parentheses(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("labels.env in ['dev','staging']", "beta delta"),
            ("labels.env in ('dev', 'staging')", "beta delta"),
            ("labels.env in['dev']", "delta"),
            ("labels.env in ('dev','dev')", "delta"),
            ("labels.env in ['nothing']", ""),
            ("labels.env not in ['dev','staging']", "alpha"),
            ("labels.env not in ('production')", "beta delta"),
            ("name in ['alpha','absent','gamma']", "alpha gamma"),
            ("name not in ('alpha','absent','gamma')", "beta delta"),
            ("generation in [1, 3]", "alpha delta gamma"),
            ("generation not in (1)", "beta"),
            ("created_time in ['2000-01-01']", ""),
            ("created_time not in ['2000-01-01']", ALL),
            ("spec.size in [3, 10]", "alpha beta"),
            ("spec.on in [true]", "alpha"),
            ("spec.on in [true, false]", "alpha beta"),
            ("spec.region in ['us-east', 'eu-west']", "alpha beta"),
            ("status.conditions.Reconciled in ['True', 'Maybe']", "alpha"),
        ],
    )
    .await;
}

async fn a_list_may_have_a_thousand_values_and_a_query_four_thousand_bytes(app: &App) {
    Fleet::built(app).await;
    let numbers = |count: usize| vec!["7"; count - 1].join(",");
    let longest = |bytes: usize| {
        let query = "name = 'alpha' or name = ''";
        query.replace("''", &format!("'{}'", "x".repeat(bytes - query.len())))
    };
    let accents = format!("name = 'alpha' or name = 'x{}'", "é".repeat(2034));
    assert_eq!((accents.len(), longest(4096).len()), (4096, 4096));
    all_find(app, "/clusters", "beta", &[&format!("generation in [{},2]", numbers(1000))]).await;
    all_find(app, "/clusters", "alpha", &[&longest(4096), &accents]).await;
    mistake(app, "/clusters", &format!("generation in [{},2]", numbers(1001))).await;
    mistake(app, "/clusters", &format!("generation not in ({},2)", numbers(1001))).await;
    for long in [longest(4097), accents.replace("'alpha'", "'alphaa'"), "(".repeat(5000), "x".repeat(20_000)]
    {
        mistake(app, "/clusters", &long).await;
    }
    // What is cut off in the words for people is not cut off in the search.
    let many = vec!["generation = 2"; 220].join(" or ");
    all_find(app, "/clusters", "beta", &[&many]).await;
}

async fn bounds_are_included(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("name between 'alpha' and 'beta'", "alpha beta"),
            ("name between 'b' and 'd'", "beta"),
            ("name between 'beta' and 'alpha'", ""),
            ("name not between 'alpha' and 'beta'", "delta gamma"),
            ("name not between 'z' and 'a'", ALL),
            ("generation between 2 and 2", "beta"),
            ("generation between 0 and 1", "alpha delta gamma"),
            ("generation not between 2 and 3", "alpha delta gamma"),
            ("generation between 1 and 2 and name = 'beta'", "beta"),
            ("generation between 2 and 3 or name between 'g' and 'h'", "beta gamma"),
            ("created_time between '2026-01-01T00:00:00Z' and '2999-01-01'", ALL),
            ("created_time not between '2026-01-01T00:00:00Z' and '2999-01-01'", ""),
            ("created_time between '2999-01-01' and '2026-01-01T00:00:00Z'", ""),
            ("spec.size between 3 and 10", "alpha beta"),
            ("spec.size between '3' and '4'", "delta"),
            ("spec.size not between 3 and 9", "beta"),
        ],
    )
    .await;
}

async fn null_tests_for_absence(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("labels.env is null", "gamma"),
            ("labels.env is not null", "alpha beta delta"),
            ("not labels.env is null", "alpha beta delta"),
            ("labels.tier is not null", "alpha"),
            ("name is null", ""),
            ("name is not null", ALL),
            ("generation is null", ""),
            ("created_time is not null", ALL),
            ("owner_id is null", ALL),
            ("owner_kind is not null", ""),
            ("deleted_by is null", ALL),
            ("spec.size is null", "gamma"),
            ("spec.size is not null", "alpha beta delta"),
            ("status.conditions.DnsSuccessful is null", "delta gamma"),
            ("status.conditions.DnsSuccessful is not null", "alpha beta"),
            ("status.conditions.DnsSuccessful.last_updated_time is null", "delta gamma"),
            ("status.conditions.DnsSuccessful.observed_generation is not null", "alpha beta"),
        ],
    )
    .await;
}

async fn or_binds_less_than_and_and_that_less_than_not(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("name='alpha' or name='beta' and generation=1", "alpha"),
            ("generation=1 and name='beta' or name='alpha'", "alpha"),
            ("(name='alpha' or name='beta') and generation=2", "beta"),
            ("name='alpha' or (name='beta' and generation=1)", "alpha"),
            ("not name='alpha' and generation=2", "beta"),
            ("not (name='alpha' and generation=2)", ALL),
            ("not name='alpha' or name='alpha'", ALL),
            ("not (name='alpha' or name='beta')", "delta gamma"),
            ("not not name='alpha'", "alpha"),
            ("not not not name='alpha'", "beta delta gamma"),
            ("not(not(name='alpha'))", "alpha"),
            ("((((name='alpha'))))", "alpha"),
            (
                "name='alpha' or name='beta' or name='gamma' and name='gamma' and generation=1",
                "alpha beta gamma",
            ),
            (
                "not name in ['alpha'] and not name like 'b%' and not generation between 2 and 3",
                "delta gamma",
            ),
            ("not name not in ['alpha']", "alpha"),
            ("not name is not null", ""),
        ],
    )
    .await;
}

async fn keywords_are_case_insensitive_and_whitespace_is_free(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("name='alpha' OR name='beta' AND generation=1", "alpha"),
            ("Not name Like 'a%' aNd nOt name In ['beta']", "delta gamma"),
            ("name NOT ILIKE '%TA'", "alpha gamma"),
            ("generation BETWEEN 2 AND 3", "beta"),
            ("labels.env IS NOT NULL and labels.env Is Not Null", "alpha beta delta"),
            ("spec.on = TRUE or spec.on = False", "alpha beta"),
            ("  name='alpha'  ", "alpha"),
            ("\tname\n=\r\n'alpha'\n", "alpha"),
            ("name='alpha'or name='beta'", "alpha beta"),
            ("(name='alpha')or(name='beta')", "alpha beta"),
            ("not(name='alpha')and not(name='beta')", "delta gamma"),
        ],
    )
    .await;
    // A field has its own case, and so has a kind of condition.
    for search in
        ["NAME='alpha'", "Generation=1", "LABELS.env='dev'", "Spec.size=3", "status.Conditions.A='True'"]
    {
        mistake(app, "/clusters", search).await;
    }
    all_find(
        app,
        "/clusters",
        "",
        &["labels.ENV='dev'", "spec.Size=3", "status.conditions.reconciled='True'"],
    )
    .await;
    for blank in ["", " ", "\t\n "] {
        assert_eq!(found(app, "/clusters", blank).await, ALL, "a blank one is none");
    }
    // As forms write it.
    assert_eq!(app.names("/clusters?search=name+%3d+%27alpha%27").await, ["alpha"]);
}

async fn nesting_goes_to_64_and_chains_as_far_as_they_fit(app: &App) {
    Fleet::built(app).await;
    let parentheses = |levels: usize| format!("{}name='alpha'{}", "(".repeat(levels), ")".repeat(levels));
    let nots = |levels: usize| format!("{}name='alpha'", "not ".repeat(levels));
    let both = |levels: usize| format!("{}name='alpha'{}", "not(".repeat(levels), ")".repeat(levels));
    all_find(app, "/clusters", "alpha", &[&parentheses(64), &nots(64), &both(32)]).await;
    for (deep, position) in [(parentheses(65), 65), (nots(65), 257), (both(33), 129), (parentheses(2000), 65)]
    {
        assert_eq!(
            mistake(app, "/clusters", &deep).await.position,
            position,
            "{}",
            &deep[..300.min(deep.len())]
        );
    }
    let chain = |word: &str, part: &str| vec![part; 4000 / (part.len() + word.len())].join(word);
    all_find(
        app,
        "/clusters",
        "alpha",
        &[
            &chain(" or ", "name='alpha'"),
            &chain(" and ", "name='alpha'"),
            &chain(" and ", "(name='alpha')"),
            &chain(" and ", "not name='beta'").replacen("beta", "gamma", 1).replacen("beta", "delta", 1),
        ],
    )
    .await;
    all_find(
        app,
        "/clusters",
        "alpha",
        &[
            &chain(" and ", "labels.env='production'"),
            &chain(" and ", "labels.env in ['production', 'x']"),
            &chain(" and ", "(labels.env='production' and labels.rank='B')"),
            &chain(" and ", "status.conditions.Reconciled='True'"),
            &chain(" and ", "status.conditions.DnsSuccessful.last_updated_time<'2026-01-01T10:00:30Z'"),
            &chain(" or ", "labels.env='production'"),
            &chain(" and ", "spec.size=3"),
        ],
    )
    .await;
    let mixed = vec!["name='alpha' or not (name='beta' and generation=1)"; 60].join(" and ");
    assert_eq!(found(app, "/clusters", &mixed).await, ALL);
}

both_stores!(
    config = CATALOG;
    comparisons_are_by_order_and_both_spellings_work,
    lists_stand_in_brackets_or_parentheses,
    a_list_may_have_a_thousand_values_and_a_query_four_thousand_bytes,
    bounds_are_included,
    null_tests_for_absence,
    or_binds_less_than_and_and_that_less_than_not,
    keywords_are_case_insensitive_and_whitespace_is_free,
    nesting_goes_to_64_and_chains_as_far_as_they_fit,
);
