//! A client whose token is renewed in its file while it runs.

use std::time::Duration;

use hyperfleet_client::{Client, Collection, Retry, Settings, Token, WatchEvent, WatchQuery};

use super::*;

both_stores!(start = async |backend| Guarded::on(backend, "").await; a_client_rereads_a_renewed_token_from_its_file,);

async fn a_client_rereads_a_renewed_token_from_its_file(guarded: &Guarded) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let renew = |token: &str| {
        let fresh = directory.path().join("fresh");
        std::fs::write(&fresh, format!("{token}\n")).unwrap();
        std::fs::rename(&fresh, &path).unwrap();
    };
    renew(&guarded.issuer.expired("ann@example.com"));
    let token = Token::File { path: path.clone(), ttl: Duration::from_secs(3600) };
    let base_url = format!("http://{}", guarded.api().authority());
    let client =
        Client::new(Settings { token: Some(token), retry: Retry::NEVER, ..Settings::of(base_url) }).unwrap();
    let error = client.whoami().await.unwrap_err();
    assert!(error.is_denied() && error.problem().unwrap().code == "HYPERFLEET-AUT-003", "{error}");
    let mut watch = client.watch(&Collection::of("clusters"), &WatchQuery::default());
    assert!(watch.next().await.unwrap_err().is_denied());

    for name in ["ann@example.com", "bob@example.com"] {
        renew(&guarded.issuer.token(name));
        // The old one may be kept for a moment, as long as it is good.
        let told = hyperfleet_testkit::eventually("the new name", DEADLINE, async || {
            let told = client.whoami().await.unwrap().identity;
            (told.as_deref() == Some(name)).then_some(told)
        });
        told.await;
        let body = json!({"kind": "Cluster", "name": &name[..3], "spec": {}});
        let made = client.create(&Collection::of("clusters"), &body, false).await.unwrap();
        assert_eq!(made.created_by(), name);
    }
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match tokio::time::timeout(DEADLINE, watch.next()).await.unwrap() {
            Ok(WatchEvent::Added { resource, .. }) => seen.push(resource.name().to_owned()),
            Ok(_) => {}
            Err(error) => assert!(error.is_denied(), "{error}"),
        }
    }
    assert_eq!(seen, ["ann", "bob"]);
}
