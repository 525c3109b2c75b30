//! Keys from files, which change while the server runs.

use hyperfleet_auth::Refusal;
use hyperfleet_testkit::eventually;

use crate::support::{DEADLINE, EC, Fixture, Signer, claims, jwks};

#[tokio::test]
async fn keys_are_there_before_the_first_request_and_follow_the_file() {
    let (first, second) = (Signer::p256("first"), Signer::p256("second"));
    let fixture = Fixture::new(&jwks(&[&first.jwk()]));
    let (old, new) = (first.token(&claims()), second.token(&claims()));
    assert!(fixture.verify(&old).await.is_ok());
    assert_eq!(fixture.refusal(&new).await, Refusal::UnknownKey);

    std::fs::write(&fixture.file, jwks(&[&first.jwk(), &second.jwk()]).to_string()).unwrap();
    eventually("the new key counts", DEADLINE, async || fixture.verify(&new).await.ok()).await;
    assert!(fixture.verify(&old).await.is_ok());

    std::fs::write(&fixture.file, jwks(&[&second.jwk()]).to_string()).unwrap();
    eventually("the old key is gone", DEADLINE, async || fixture.verify(&old).await.err()).await;
    assert!(fixture.verify(&new).await.is_ok());
}

#[tokio::test]
async fn a_file_that_breaks_or_goes_away_takes_no_key_with_it() {
    let log = crate::support::Log::listen();
    let fixture = Fixture::new(&jwks(&[&EC.jwk()]));
    let token = EC.token(&claims());

    std::fs::write(&fixture.file, "{\"keys\": [").unwrap();
    eventually("the broken file is noticed", DEADLINE, async || {
        log.text().contains("it is no JSON").then_some(())
    })
    .await;
    assert!(fixture.verify(&token).await.is_ok());

    std::fs::remove_file(&fixture.file).unwrap();
    eventually("the lost file is noticed", DEADLINE, async || {
        log.text().contains("No such file").then_some(())
    })
    .await;
    assert!(fixture.verify(&token).await.is_ok());

    std::fs::write(&fixture.file, " ".repeat((1 << 20) + 1)).unwrap();
    eventually("the huge file is noticed", DEADLINE, async || {
        log.text().to_lowercase().contains("file too large").then_some(())
    })
    .await;
    assert!(fixture.verify(&token).await.is_ok());

    // It was said once each, however often it was seen.
    assert_eq!(log.text().matches("the known ones stay").count(), 3, "{}", log.text());

    let next = Signer::p256("next");
    std::fs::write(&fixture.file, jwks(&[&next.jwk()]).to_string()).unwrap();
    let token = next.token(&claims());
    eventually("the mended file counts", DEADLINE, async || fixture.verify(&token).await.ok()).await;
}

#[tokio::test]
async fn a_file_that_comes_later_is_found() {
    let fixture = Fixture::with(&jwks(&[]), |config| {
        let file = config.jwk_cert_file.as_mut().unwrap();
        file.set_file_name("later.json");
    });
    let token = EC.token(&claims());
    assert_eq!(fixture.refusal(&token).await, Refusal::NoKeys);
    std::fs::write(fixture.file.with_file_name("later.json"), jwks(&[&EC.jwk()]).to_string()).unwrap();
    eventually("the file is found", DEADLINE, async || fixture.verify(&token).await.ok()).await;
}

#[tokio::test]
async fn a_link_that_moves_is_a_change() {
    let fixture = Fixture::with(&jwks(&[&EC.jwk()]), |config| {
        let file = config.jwk_cert_file.clone().unwrap();
        let link = file.with_file_name("link.json");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        config.jwk_cert_file = Some(link);
    });
    assert!(fixture.verify(&EC.token(&claims())).await.is_ok());

    let next = Signer::p256("next");
    let target = fixture.file.with_file_name("next.json");
    std::fs::write(&target, jwks(&[&next.jwk()]).to_string()).unwrap();
    let fresh = fixture.file.with_file_name("fresh.json");
    std::os::unix::fs::symlink(&target, &fresh).unwrap();
    std::fs::rename(&fresh, fixture.file.with_file_name("link.json")).unwrap();
    let token = next.token(&claims());
    eventually("the link is followed", DEADLINE, async || fixture.verify(&token).await.ok()).await;
}
