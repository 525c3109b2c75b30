//! The texts of refusals.

use std::collections::BTreeSet;

use hyperfleet_auth::{Refusal, RefusalKind};

#[test]
fn every_reason_has_one_of_the_four_kinds() {
    let of = |kind: RefusalKind| -> Vec<Refusal> {
        Refusal::ALL.into_iter().filter(|refusal| refusal.kind() == kind).collect()
    };
    assert_eq!(
        of(RefusalKind::Unauthenticated),
        [Refusal::NoToken, Refusal::NotBearer, Refusal::NoIdentity, Refusal::BadIdentity]
    );
    assert_eq!(of(RefusalKind::Invalid).len(), 10);
    assert_eq!(of(RefusalKind::Expired), [Refusal::Expired]);
    assert_eq!(of(RefusalKind::Malformed).len(), 6);
    assert_eq!(Refusal::ALL.into_iter().collect::<std::collections::HashSet<_>>().len(), 21);
}

#[test]
fn the_challenge_gives_the_reason_as_rfc_6750_wants_it() {
    assert_eq!(Refusal::NoToken.challenge(), r#"Bearer realm="hyperfleet""#);
    assert_eq!(Refusal::NotBearer.challenge(), r#"Bearer realm="hyperfleet""#);
    assert_eq!(
        Refusal::Expired.challenge(),
        r#"Bearer realm="hyperfleet", error="invalid_token", error_description="The token has expired""#
    );
    // The characters that error_description may have.
    let allowed = |c: char| matches!(c, ' '..='~') && c != '"' && c != '\\';
    for refusal in Refusal::ALL {
        assert!(refusal.detail().chars().all(allowed), "{refusal:?}");
        assert!(refusal.challenge().parse::<http::HeaderValue>().is_ok());
    }
}

#[test]
fn every_reason_has_a_sentence_of_its_own() {
    let sentences: BTreeSet<_> = Refusal::ALL.into_iter().map(Refusal::detail).collect();
    assert_eq!(sentences.len(), Refusal::ALL.len());
    assert_eq!(Refusal::Expired.to_string(), "The token has expired");
}
