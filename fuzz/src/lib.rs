//! What must hold for every text that a caller can write in `search=`, for every token, and for every header that is read
//! as more than text, as functions that panic where it does not.
//! They are plain functions so that a fuzzer can look for a text that breaks them, and a test can run them over
//! the corpus on any toolchain. They must not repeat how a text is read, or they would repeat its faults.
#![forbid(unsafe_code)]

mod accept;
mod candidates;
mod filter;
mod headers;
mod idempotency_key;
mod pattern;
mod refusal;
mod schema;
mod token;

pub use accept::accept;
pub use headers::headers;
pub use idempotency_key::key;
pub use pattern::like;
pub use schema::schema;
pub use token::token;

use hyperfleet_core::search::{Filter, MAX_BYTES, Options, SearchError, parse};

/// Any text is a filter that holds what its type promises and can be applied, or a refusal that points into it.
pub fn search(text: &str) {
    let plain = answer(text, Options { tenancy: false });
    let tenanted = answer(text, Options { tenancy: true });
    // Tenancy adds a field and changes nothing else.
    match (plain, tenanted) {
        (Ok(plain), tenanted) => assert_eq!(tenanted, Ok(plain)),
        (Err(_), Ok(tenanted)) => assert!(filter::names_tenancy(&tenanted), "{tenanted:?}"),
        (Err(plain), Err(tenanted)) => {
            assert!(plain.position() <= tenanted.position(), "{plain}\n{tenanted}");
        }
    }
}

fn answer(text: &str, options: Options) -> Result<Filter, SearchError> {
    let answer = parse(text, options);
    match &answer {
        Ok(filter) => accepted(text, options, filter),
        Err(error) => refusal::check(text, error),
    }
    answer
}

fn accepted(text: &str, options: Options, filter: &Filter) {
    assert!(text.len() <= MAX_BYTES && !text.contains('\0'));
    filter::check(filter);
    assert!(options.tenancy || !filter::names_tenancy(filter), "{filter:?}");
    assert!(text.contains("deleted_time") || !filter.names_deleted_time(), "{filter:?}");
    for candidate in candidates::all() {
        let found = filter.matches(candidate);
        assert!(found.is_ok(), "{found:?}");
    }
    // What is a query alone means the same in parentheses: it cannot end before they do, or reach out of them.
    match parse(&format!("not ({text})"), options) {
        Ok(negated) => assert_eq!(negated, Filter::Not(Box::new(filter.clone()))),
        Err(error) => assert_eq!(error.fault().constraint, Some("max"), "{error}"),
    }
}
