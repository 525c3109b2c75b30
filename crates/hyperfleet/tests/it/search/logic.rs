//! Logic is two-valued: a comparison with an absent value is false, and `not` of it true.

use super::*;

const ALL: &str = "alpha beta delta gamma";

/// Fields that gamma lacks, each with a value of its type.
const LACKING: [(&str, &str); 9] = [
    ("labels.env", "'production'"),
    ("spec.region", "'us-east'"),
    ("spec.size", "3"),
    ("spec.on", "true"),
    ("status.conditions.DnsSuccessful", "'True'"),
    ("status.conditions.DnsSuccessful.reason", "'Fine'"),
    ("status.conditions.DnsSuccessful.observed_generation", "1"),
    ("status.conditions.DnsSuccessful.last_updated_time", "'2026-01-01T10:00:20Z'"),
    ("deleted_by", "'somebody'"),
];

async fn a_comparison_with_an_absent_value_is_false_and_its_negation_true(app: &App) {
    Fleet::built(app).await;
    for (field, value) in LACKING {
        let mut forms = vec![
            format!("{field} = {value}"),
            format!("{field} != {value}"),
            format!("{field} in [{value}]"),
            format!("{field} not in [{value}]"),
            format!("{field} is not null"),
        ];
        if value != "true" {
            forms.extend(["<", "<=", ">", ">="].map(|sign| format!("{field} {sign} {value}")));
            forms.push(format!("{field} between {value} and {value}"));
            forms.push(format!("{field} not between {value} and {value}"));
        }
        if value.starts_with('\'') && !field.ends_with("_time") {
            forms.extend(
                ["like", "not like", "ilike", "not ilike"].map(|word| format!("{field} {word} {value}")),
            );
        }
        for form in forms {
            for (search, expected) in [
                (form.clone(), ""),
                (format!("not {form}"), "gamma"),
                (format!("not ({form} or name = 'beta')"), "gamma"),
                (format!("not ({form} and name = 'gamma')"), "gamma"),
                (format!("{form} and not {form}"), ""),
            ] {
                let found = found(app, "/clusters", &format!("name = 'gamma' and ({search})")).await;
                assert_eq!(found, expected, "{search}");
            }
        }
    }
}

async fn a_negated_comparison_finds_all_others(app: &App) {
    Fleet::built(app).await;
    finds(
        app,
        "/clusters",
        &[
            ("not labels.env='production'", "beta delta gamma"),
            ("labels.env!='production'", "beta delta"),
            ("not labels.env!='production'", "alpha gamma"),
            ("not labels.env in ['production','dev']", "beta gamma"),
            ("labels.env not in ['production','dev']", "beta"),
            ("not labels.env not in ['production','dev']", "alpha delta gamma"),
            ("not labels.env like 'p%'", "beta delta gamma"),
            ("labels.env not like 'p%'", "beta delta"),
            ("not labels.env not like 'p%'", "alpha gamma"),
            ("not labels.env between 'a' and 'e'", "alpha beta gamma"),
            ("labels.env not between 'a' and 'e'", "alpha beta"),
            ("not labels.env < 'e'", "alpha beta gamma"),
            ("labels.env >= 'e'", "alpha beta"),
            ("not labels.env is null", "alpha beta delta"),
            ("labels.nothing != 'x' or labels.nothing not in ['x'] or labels.nothing not like 'x'", ""),
            ("not labels.nothing != 'x'", ALL),
            ("not (labels.env = 'production' and spec.size = 3)", "beta delta gamma"),
            ("not (labels.env = 'production' or spec.size = 10)", "delta gamma"),
            ("not spec.ratio = 0.1", "beta delta gamma"),
            ("not status.conditions.DnsSuccessful = 'True'", "delta gamma"),
            ("status.conditions.DnsSuccessful != 'True'", ""),
            ("status.conditions.DnsSuccessful.observed_generation = 1.5", ""),
            ("not status.conditions.DnsSuccessful.observed_generation = 1e400", ALL),
            ("status.conditions.DnsSuccessful.observed_generation != 1.5", "alpha beta"),
            ("status.conditions.DnsSuccessful.observed_generation not in [1.5]", "alpha beta"),
            ("status.conditions.DnsSuccessful.observed_generation not in [1e400, 0.5]", "alpha beta"),
            ("not status.conditions.DnsSuccessful.observed_generation not in [1.5]", "delta gamma"),
            ("status.conditions.DnsSuccessful.observed_generation in [1.5]", ""),
            ("not status.conditions.DnsSuccessful.observed_generation in [1.5]", ALL),
            ("not status.conditions.DnsSuccessful != 'True'", ALL),
            (
                "not status.conditions.DnsSuccessful.last_updated_time < '2026-01-01T10:00:30Z'",
                "beta delta gamma",
            ),
            ("not status.conditions.Nothing = 'True' and not status.conditions.Nothing != 'True'", ALL),
            ("not owner_id = 'x'", ALL),
            ("owner_id != 'x'", ""),
            ("not owner_kind not in ['x']", ALL),
            ("not deleted_by like '%'", ALL),
        ],
    )
    .await;
}

both_stores!(
    config = CATALOG;
    a_comparison_with_an_absent_value_is_false_and_its_negation_true,
    a_negated_comparison_finds_all_others,
);
