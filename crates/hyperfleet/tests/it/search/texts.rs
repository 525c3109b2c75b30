//! Texts in a search: their quotes and escapes, patterns, and their order.

use super::*;

/// Networks named after their place in `texts`, each with one of them.
async fn written(app: &App, texts: &[&str]) {
    for (number, text) in texts.iter().enumerate() {
        let body = json!({"kind": "Network", "name": format!("n{number}"), "spec": {"t": text}});
        app.create("/networks", &body).await;
    }
}

async fn texts_have_three_quotes_and_few_escapes(app: &App) {
    let texts = [
        "it's",
        "say \"hi\"",
        "a`b",
        "C:\\dir",
        "one\ntwo",
        "tab\there",
        "cr\rhere",
        "back\\",
        "",
        "\\n",
        "'",
    ];
    written(app, &texts).await;
    finds(
        app,
        "/networks",
        &[
            ("spec.t = 'it''s'", "n0"),
            (r"spec.t = 'it\'s'", "n0"),
            ("spec.t = \"it's\"", "n0"),
            ("spec.t = `it's`", "n0"),
            (r"spec.t = `it\'s`", "n0"),
            ("spec.t = 'say \"hi\"'", "n1"),
            ("spec.t = \"say \"\"hi\"\"\"", "n1"),
            (r#"spec.t = "say \"hi\"""#, "n1"),
            ("spec.t = `a``b`", "n2"),
            (r"spec.t = `a\`b`", "n2"),
            ("spec.t = 'a`b'", "n2"),
            (r"spec.t = 'C:\dir'", "n3"),
            (r"spec.t = 'C:\\dir'", "n3"),
            (r"spec.t = 'one\ntwo'", "n4"),
            ("spec.t = 'one\ntwo'", "n4"),
            (r"spec.t = 'tab\there'", "n5"),
            ("spec.t = 'tab\there'", "n5"),
            (r"spec.t = 'cr\rhere'", "n6"),
            (r"spec.t = 'back\\'", "n7"),
            ("spec.t = ''", "n8"),
            ("spec.t = \"\"", "n8"),
            ("spec.t = ``", "n8"),
            (r"spec.t = '\\n'", "n9"),
            (r"spec.t = '\n'", ""),
            ("spec.t = ''''", "n10"),
            (r"spec.t = '\''", "n10"),
            ("spec.t = \"'\"", "n10"),
            (r"spec.t = 'it\s'", ""),
            ("spec.t in ('it''s', \"a`b\", `'`)", "n0 n10 n2"),
        ],
    )
    .await;
}

async fn patterns_take_the_whole_text_and_each_sign_one_character(app: &App) {
    let texts = [
        "100%", "100x", "a_b", "aXb", "one\ntwo", "😀", "(a|b)*", "C:\\dir", "ÀÉ", "", "a%b", "[abc]", "A_B",
    ];
    written(app, &texts).await;
    finds(
        app,
        "/networks",
        &[
            ("spec.t like '100%'", "n0 n1"),
            (r"spec.t like '100\%'", "n0"),
            (r"spec.t like '100\\%'", "n0"),
            ("spec.t like '100_'", "n0 n1"),
            ("spec.t like '100'", ""),
            ("spec.t like '100__'", ""),
            ("spec.t like 'a_b'", "n10 n2 n3"),
            (r"spec.t like 'a\_b'", "n2"),
            (r"spec.t like 'a\%b'", "n10"),
            (r"spec.t ilike 'A\_B'", "n12 n2"),
            ("spec.t like 'a%b'", "n10 n2 n3"),
            ("spec.t ilike 'a%B'", "n10 n12 n2 n3"),
            ("spec.t like 'A%'", "n12"),
            ("spec.t like 'one%two'", "n4"),
            ("spec.t like 'one_two'", "n4"),
            (r"spec.t like 'one\ntwo'", "n4"),
            ("spec.t like '_'", "n5"),
            ("spec.t like '__'", "n8"),
            ("spec.t like '😀'", "n5"),
            ("spec.t like '%😀%'", "n5"),
            ("spec.t like '(a|b)*'", "n6"),
            ("spec.t like '(%|%)_'", "n6"),
            ("spec.t like '.*'", ""),
            ("spec.t like '[abc]'", "n11"),
            ("spec.t like '^%'", ""),
            (r"spec.t like 'C:\dir'", "n7"),
            (r"spec.t like 'C:\\dir'", "n7"),
            ("spec.t like 'C:_dir'", "n7"),
            ("spec.t like ''", "n9"),
            ("spec.t like '%%%'", "n0 n1 n10 n11 n12 n2 n3 n4 n5 n6 n7 n8 n9"),
            ("spec.t like '%_%'", "n0 n1 n10 n11 n12 n2 n3 n4 n5 n6 n7 n8"),
            ("spec.t not like '%_%'", "n9"),
            ("spec.t not like '%a%' and spec.t not ilike '%X%'", "n0 n12 n4 n5 n7 n8 n9"),
            ("spec.t ilike 'ONE%'", "n4"),
            ("spec.t ilike '100X'", "n1"),
            ("spec.t ilike 'c:_DIR'", "n7"),
            ("spec.t ilike 'ÀÉ'", "n8"),
            ("spec.t ilike '_É'", "n8"),
        ],
    )
    .await;
}

async fn texts_are_compared_by_code_point(app: &App) {
    // By any dictionary "a" comes before "B", and in UTF-16 the clef before U+FFFD.
    let texts =
        ["", " ", "-", "1", "10", "2", "B", "Z", "_", "a", "a b", "ab", "z", "é", "\u{fffd}", "\u{1d11e}"];
    written(app, &texts).await;
    for (low, text) in texts.iter().enumerate() {
        let names = |numbers: &mut dyn Iterator<Item = usize>| {
            let mut names: Vec<_> = numbers.map(|number| format!("n{number}")).collect();
            names.sort();
            names.join(" ")
        };
        let last = texts.len();
        finds(
            app,
            "/networks",
            &[
                (&format!("spec.t = '{text}'"), &names(&mut (low..=low))),
                (&format!("spec.t < '{text}'"), &names(&mut (0..low))),
                (&format!("spec.t <= '{text}'"), &names(&mut (0..=low))),
                (&format!("spec.t > '{text}'"), &names(&mut (low + 1..last))),
                (&format!("spec.t >= '{text}'"), &names(&mut (low..last))),
                (&format!("spec.t between '{text}' and 'z'"), &names(&mut (low..=12))),
            ],
        )
        .await;
    }
}

both_stores!(
    config = CATALOG;
    texts_have_three_quotes_and_few_escapes,
    patterns_take_the_whole_text_and_each_sign_one_character,
    texts_are_compared_by_code_point,
);
