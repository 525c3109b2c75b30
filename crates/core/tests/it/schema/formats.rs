//! Formats, on texts that nearly have them.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::generate::{OPENAPI_3_0, OPENAPI_3_1};
use super::{accepts, compile, model};
use crate::cases;

const FORMATS: [&str; 16] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// What fits one of them, at least.
const SAMPLES: [&str; 33] = [
    "2020-02-29",
    "1999-12-31T23:59:60Z",
    "2020-01-01t00:00:00.25+01:30",
    "00:29:60+00:30",
    "12:00:00-08:00",
    "P1Y2M3DT4H5M6S",
    "P4W",
    "PT1M",
    "joe.bloggs@example.com",
    "\"joe \\\" bloggs\"@[127.0.0.1]",
    "a@[IPv6:::1]",
    "Joe <joe@example.com>",
    "www.example-1.com",
    "127.0.0.1",
    "::ffff:10.0.0.1",
    "1:2:3:4:5:6:7:8",
    "https://joe:pw@example.com:8080/a/b;c?d=e%20f#g",
    "http://[::1]:80/",
    "http://[v1.a:b]/",
    "urn:isbn:0451450523",
    "//host/path",
    "./a:b",
    "../x?y#z",
    "http://é.example/ü?ö#ä",
    "/a~0b/c~1d/",
    "0#",
    "12/a",
    "http://example.com/{+path,x}/{?q*,r:12}{/a.b}",
    "%41{%41}",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "",
    "mailto:a@b",
    "a..b",
];

/// A sample, or one with a piece cut out, put in or doubled.
fn text() -> impl Strategy<Value = String> {
    let piece = "[-0-9a-zA-Z:./@#?%{}~\\[\\]()\"\\\\+*é ,]{0,2}";
    (select(SAMPLES.to_vec()), any::<prop::sample::Index>(), 0..3_usize, piece, any::<bool>()).prop_map(
        |(sample, at, cut, piece, whole)| {
            if whole {
                return sample.to_owned();
            }
            let characters: Vec<char> = sample.chars().collect();
            let at = at.index(characters.len() + 1);
            let rest = characters.iter().skip(at + cut);
            characters[..at].iter().copied().chain(piece.chars()).chain(rest.copied()).collect()
        },
    )
}

/// The model takes some punctuation for digits of times, and refuses escaped spaces of mailboxes.
fn misread(format: &str, text: &str) -> bool {
    match format {
        "date" | "date-time" | "time" => text.contains(['*', '+', ',', '.', '/']),
        "email" => text.contains('\\'),
        _ => false,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_format_fits_what_it_fits_elsewhere(
        format in select(FORMATS.to_vec()), version in select(vec![OPENAPI_3_0, OPENAPI_3_1]),
        texts in prop::collection::vec(text(), 16),
    ) {
        let components = json!({"A": {"format": format}});
        let model = model(version, &components).unwrap();
        let schemas = compile(version, &components).unwrap();
        for text in texts {
            let left_out = !SAMPLES.contains(&text.as_str()) && misread(format, &text);
            let text = Value::from(text);
            if !left_out {
                prop_assert_eq!(accepts(&schemas, &text), model.is_valid(&text), "{} as {}", text, format);
            }
        }
    }
}
