//! Numbers in a search and in a spec: exact, of any size, with suffixes.

use super::*;

/// Networks named after the place in `numbers`, each with one of them as it is written.
async fn written(app: &App, numbers: &[&str]) {
    for (place, number) in numbers.iter().enumerate() {
        let body = format!(r#"{{"kind": "Network", "name": "n{place:02}", "spec": {{"n": {number}}}}}"#);
        app.post("/networks").header("content-type", "application/json").body(body).await.expect_status(201);
    }
}

async fn numbers_are_exact_whatever_their_size(app: &App) {
    // In their order, with those that are equal side by side.
    let numbers = [
        "-1e99999999999999999999",
        "-1.5e400",
        "-9007199254740993",
        "-1.5",
        "-1",
        "-1e-400",
        "0",
        "-0.0",
        "0e10",
        "1e-99999999999999999999",
        "1e-400",
        "0.1",
        "0.1000000000000000055511151231257827",
        "0.3",
        "1",
        "1.0",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "123456789012345678901234567890.5",
        "1.5e400",
        "15E+399",
        "1.5000000000000000000000000000001e400",
        "1e99999999999999999999",
    ];
    let same = [6..9, 14..16, 21..23];
    written(app, &numbers).await;
    let names = |places: std::ops::Range<usize>| {
        places.map(|place| format!("n{place:02}")).collect::<Vec<_>>().join(" ")
    };
    for (place, number) in numbers.iter().enumerate() {
        let equal = same.iter().find(|places| places.contains(&place)).cloned().unwrap_or(place..place + 1);
        finds(
            app,
            "/networks",
            &[
                (&format!("spec.n = {number}"), &names(equal.clone())),
                (&format!("spec.n in [{number}, 777]"), &names(equal.clone())),
                (&format!("spec.n < {number}"), &names(0..equal.start)),
                (&format!("spec.n <= {number}"), &names(0..equal.end)),
                (&format!("spec.n > {number}"), &names(equal.end..numbers.len())),
                (&format!("spec.n >= {number}"), &names(equal.start..numbers.len())),
                (&format!("spec.n between {number} and 1"), &names(equal.start..16.max(equal.start))),
            ],
        )
        .await;
        let others = [names(0..equal.start), names(equal.end..numbers.len())].join(" ");
        all_find(app, "/networks", others.trim(), &[&format!("spec.n != {number}")]).await;
    }
}

async fn suffixes_are_powers_of_a_thousand_or_with_an_i_of_1024(app: &App) {
    let numbers = [
        "1000",
        "1024",
        "1000000",
        "1048576",
        "1000000000",
        "1073741824",
        "1000000000000",
        "1099511627776",
        "1000000000000000",
        "1125899906842624",
        "1610612736",
        "-2000",
        "2.5",
        "1500",
    ];
    written(app, &numbers).await;
    finds(
        app,
        "/networks",
        &[
            ("spec.n = 1k", "n00"),
            ("spec.n = 1K", "n00"),
            ("spec.n = 1Ki", "n01"),
            ("spec.n = 1ki", "n01"),
            ("spec.n = 1M", "n02"),
            ("spec.n = 1Mi", "n03"),
            ("spec.n = 1G", "n04"),
            ("spec.n = 1Gi", "n05"),
            ("spec.n = 1T", "n06"),
            ("spec.n = 1Ti", "n07"),
            ("spec.n = 1P", "n08"),
            ("spec.n = 1Pi", "n09"),
            ("spec.n = 1.5Gi", "n10"),
            ("spec.n = -2k", "n11"),
            ("spec.n = 0.0025k", "n12"),
            ("spec.n = 25e-1", "n12"),
            ("spec.n = 2.50", "n12"),
            ("spec.n = 1.5E3", "n13"),
            ("spec.n = 15e+2", "n13"),
            ("spec.n = 1.5k", "n13"),
            ("spec.n in [1k, 1Ki, -2K]", "n00 n01 n11"),
            ("spec.n between 1k and 1Ki", "n00 n01"),
            ("spec.n < 1k", "n11 n12"),
        ],
    )
    .await;
}

async fn a_generation_is_compared_with_any_number(app: &App) {
    Fleet::built(app).await;
    let (all, first) = ("alpha beta delta gamma", "alpha delta gamma");
    finds(
        app,
        "/clusters",
        &[
            ("generation = 1.0", first),
            ("generation = 0.1e1", first),
            ("generation = 1.5", ""),
            ("generation != 1.5", all),
            ("generation > 1.5", "beta"),
            ("generation >= 1.5", "beta"),
            ("generation < 1.5", first),
            ("generation <= 1.999999999999999999999", first),
            ("generation between 0.5 and 1.5", first),
            ("generation not between 0.5 and 1.5", "beta"),
            ("generation in [1.5, 2.0]", "beta"),
            ("generation not in [1.5, 2.0]", first),
            ("generation > -1", all),
            ("generation > -1e400", all),
            ("generation < 1e400", all),
            ("generation < 18446744073709551616", all),
            ("generation = 18446744073709551617", ""),
            ("generation = 9223372036854775808", ""),
            ("generation != 9223372036854775808", all),
            ("generation > 9223372036854775807", ""),
            ("generation in [9223372036854775808, 2]", "beta"),
            ("generation >= 1e-400", all),
            ("generation < 2k", all),
            ("status.conditions.Reconciled.observed_generation = 2.0", "beta"),
            ("status.conditions.Reconciled.observed_generation < 1.5", first),
            ("status.conditions.Reconciled.observed_generation < 1e400", all),
            ("status.conditions.Reconciled.observed_generation > 18446744073709551616", ""),
            ("status.conditions.DnsSuccessful.observed_generation in [1, 1e99]", "alpha beta"),
        ],
    )
    .await;
}

async fn a_malformed_number_is_refused(app: &App) {
    for number in [
        ".5",
        "5.",
        "-.5",
        "+5",
        "--5",
        "1e",
        "1e+",
        "1.e5",
        "1.2.3",
        "0x10",
        "1_000",
        "5m",
        "5g",
        "5kk",
        "5kib",
        "5i",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e5k5",
        "²",
        "٣",
        "1 000",
    ] {
        for field in ["generation", "spec.n", "status.conditions.Reconciled.observed_generation"] {
            mistake(app, "/networks", &format!("{field} = {number}")).await;
            mistake(app, "/networks", &format!("{field} in [1, {number}]")).await;
        }
    }
    // However large it is written, it is a number or a mistake.
    for number in
        ["9".repeat(4000), format!("0.{}", "1".repeat(4000)), "1e999999999".into(), "1e-999999999".into()]
    {
        for field in ["generation", "spec.n"] {
            all_find(app, "/networks", "", &[&format!("{field} = {number}")]).await;
        }
    }
    // A spec may hold one with a larger exponent than a search: it never fails a search.
    for exponent in [60, 400] {
        let number = format!("1e{}", "9".repeat(exponent));
        let body = format!(r#"{{"kind": "Network", "name": "n{exponent}", "spec": {{"n": {number}}}}}"#);
        let made = app.post("/networks").header("content-type", "application/json").body(body).await;
        assert!([201, 400].contains(&made.status), "{made}");
        for search in ["spec.n > 5", "spec.n = 5", "not spec.n < 5", "spec.n is not null", "spec.n in [5, 6]"]
        {
            found(app, "/networks", search).await;
        }
    }
    let endless = format!("generation < 1e{}", "9".repeat(4000));
    let answer = app.get(&searched("/networks", &endless)).await;
    assert!([200, 400].contains(&answer.status), "{answer}");
}

both_stores!(
    config = CATALOG;
    numbers_are_exact_whatever_their_size,
    suffixes_are_powers_of_a_thousand_or_with_an_i_of_1024,
    a_generation_is_compared_with_any_number,
    a_malformed_number_is_refused,
);
