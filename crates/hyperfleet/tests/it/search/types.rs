//! A field stands left and a value of its type right; everything else is refused with its position.

use super::*;

async fn a_text_field_takes_texts_alone(app: &App) {
    for field in [
        "id",
        "name",
        "kind",
        "href",
        "created_by",
        "updated_by",
        "deleted_by",
        "owner_id",
        "owner_kind",
        "labels.a",
        "status.conditions.Reconciled",
        "status.conditions.Reconciled.status",
        "status.conditions.Reconciled.reason",
        "status.conditions.Reconciled.message",
    ] {
        let place = field.chars().count();
        for (rest, behind) in [
            ("= 5", 4),
            ("!= true", 5),
            ("< 5", 4),
            ("in ['a', 5]", 11),
            ("not in (false)", 10),
            ("between 1 and 2", 10),
            ("between 'a' and 2", 18),
            ("like 5", 7),
            ("not ilike true", 12),
        ] {
            let search = format!("{field} {rest}");
            let mistake = mistake(app, "/clusters", &search).await;
            assert_eq!(mistake.position, place + behind, "{search}: {}", mistake.said);
        }
    }
}

async fn an_integer_field_takes_numbers_alone(app: &App) {
    for field in ["generation", "status.conditions.Reconciled.observed_generation"] {
        let place = field.chars().count();
        for (rest, behind) in [
            ("= '5'", 4),
            ("= true", 4),
            ("!= 'x'", 5),
            ("in [1, '2']", 9),
            ("in [1, false]", 9),
            ("between 1 and '2'", 16),
            ("between '1' and '2'", 10),
            ("like '1%'", 2),
            ("ilike '1%'", 2),
            ("not like '1%'", 6),
            ("= '2026-01-01'", 4),
        ] {
            let search = format!("{field} {rest}");
            let mistake = mistake(app, "/clusters", &search).await;
            assert_eq!(mistake.position, place + behind, "{search}: {}", mistake.said);
        }
    }
}

async fn a_time_field_takes_strict_times_alone(app: &App) {
    let fields = [
        "created_time",
        "updated_time",
        "deleted_time",
        "status.conditions.Reconciled.last_updated_time",
        "status.conditions.Reconciled.last_transition_time",
    ];
    for field in fields {
        let place = field.chars().count();
        for (rest, behind) in [
            ("> 5", 4),
            ("= true", 4),
            ("in ['2026-01-01', 5]", 20),
            ("between '2026-01-01' and 'x'", 27),
            ("between '2026-01-01' and 5", 27),
            ("like '2026%'", 2),
            ("not ilike '2026%'", 6),
        ] {
            let search = format!("{field} {rest}");
            let mistake = mistake(app, "/clusters", &search).await;
            assert_eq!(mistake.position, place + behind, "{search}: {}", mistake.said);
        }
    }
    for time in [
        "",
        "now",
        "2026",
        "2026-01",
        "2026-1-1",
        "2026-02-30",
        "2025-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-01-01T",
        "2026-01-01T12:00Z",
        "2026-01-01T12:00:00",
        "2026-01-01 12:00:00Z",
        "2026-01-01T12:00:00 Z",
        "2026-01-01T12:00:00+0100",
        "2026-01-01T12:00:00+01",
        "2026-01-01T25:00:00Z",
        "2026-01-01T12:60:00Z",
        "2026-01-01T12:00:00.Z",
        "2026-01-01T12:00:00,5Z",
        " 2026-01-01",
        "2026-01-01 ",
        "12026-01-01",
        "20260101",
        "2026-W01-1",
        "1767225600",
        "2026-01-01Z",
        "2026-01-01T12:00:00Zulu",
        "infinity",
        "yesterday",
        "epoch",
    ] {
        for field in ["created_time", "status.conditions.Reconciled.last_updated_time"] {
            let search = format!("{field} > '{time}'");
            let mistake = mistake(app, "/clusters", &search).await;
            assert_eq!(mistake.position, field.len() + 4, "{search}: {}", mistake.said);
        }
    }
}

async fn a_spec_takes_any_value_where_it_makes_sense(app: &App) {
    refuses(
        app,
        "/clusters",
        &[
            ("spec.a between 1 and 'b'", 22, "number"),
            ("spec.a between 'a' and 2", 24, "text"),
            ("spec.a between 1 and true", 22, ""),
            ("spec.a between true and false", 16, ""),
            ("spec.a not between 'a' and 2", 28, ""),
            ("spec.a < true", 10, ""),
            ("spec.a <= false", 11, ""),
            ("spec.a > true", 10, ""),
            ("spec.a >= true", 11, ""),
            ("spec.a like 5", 13, ""),
            ("spec.a like true", 13, ""),
            ("spec.a not ilike 5", 18, ""),
            ("spec.a = null", 10, "is null"),
            ("spec.a in [null]", 12, ""),
        ],
    )
    .await;
    all_find(
        app,
        "/clusters",
        "",
        &["spec.a = 'x'", "spec.a != 5", "spec.a = true", "spec.a in [true, false]"],
    )
    .await;
}

async fn a_value_on_the_left_or_a_field_on_the_right_is_refused(app: &App) {
    refuses(
        app,
        "/clusters",
        &[
            ("'a' = name", 1, "field"),
            ("\"a\" = name", 1, "field"),
            ("5 = generation", 1, "field"),
            ("true", 1, "field"),
            ("true = spec.on", 1, "field"),
            ("null is null", 1, "field"),
            ("name = kind", 8, "quote"),
            ("name = alpha", 8, "quote"),
            ("name in [alpha]", 10, "quote"),
            ("labels.a = labels.b", 12, "quote"),
            ("name between alpha and 'b'", 14, "quote"),
            ("name like kind", 11, ""),
            ("generation = generation", 14, ""),
            ("1 = 1", 1, "field"),
            ("(1 = 1) or name = 'x'", 2, "field"),
        ],
    )
    .await;
}

both_stores!(a_spec_takes_any_value_where_it_makes_sense);
any_store!(
    a_text_field_takes_texts_alone,
    an_integer_field_takes_numbers_alone,
    a_time_field_takes_strict_times_alone,
    a_value_on_the_left_or_a_field_on_the_right_is_refused,
);
