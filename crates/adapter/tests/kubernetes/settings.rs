//! How the target is reached, and what follows when it is not.

use std::fs;
use std::time::Duration;

use hyperfleet_adapter::targets::kubernetes::{Kubernetes, Settings};
use hyperfleet_adapter::targets::{ErrorClass, Matcher, Observation, Query};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{World, on_kubernetes, unknown};

/// A kubeconfig for this server with more in its cluster and its user.
fn kubeconfig(server: &str, cluster: &str, user: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: \"{server}\"{cluster}}}}}]\n\
         users: [{{name: a, user: {{{user}}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
    );
    fs::write(file.path(), text).unwrap();
    file
}

fn query() -> Query {
    Query {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("a".to_owned()),
        matcher: Matcher::Name("a".to_owned()),
    }
}

fn settings(file: &tempfile::NamedTempFile) -> Settings {
    Settings { kube_config_path: Some(file.path().to_owned()), ..Settings::of("test") }
}

#[tokio::test]
async fn programs_for_credentials_need_permission() {
    let user =
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: \"false\", interactiveMode: Never}";
    let file = kubeconfig("https://127.0.0.1:1", "", user);
    let error = Kubernetes::connect(&settings(&file)).await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Terminal, "InvalidConfiguration"));
    assert!(error.message.contains("clients.kubernetes.allow_exec"), "{error}");
}

#[tokio::test]
async fn an_unchecked_certificate_needs_permission() {
    let file = kubeconfig("https://127.0.0.1:1", ", insecure-skip-tls-verify: true", "token: s3cret");
    let error = Kubernetes::connect(&settings(&file)).await.unwrap_err();
    assert!(error.message.contains("clients.kubernetes.allow_insecure"), "{error}");
    let permitted = Settings { allow_insecure: true, ..settings(&file) };
    assert!(Kubernetes::connect(&permitted).await.is_ok());
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_refused_at_once() {
    let missing = Settings { kube_config_path: Some("/nowhere/config".into()), ..Settings::of("test") };
    let error = Kubernetes::connect(&missing).await.unwrap_err();
    assert!(error.class == ErrorClass::Terminal && error.message.contains("/nowhere/config"), "{error}");
    let file = kubeconfig("https://127.0.0.1:1", "", "token: a");
    let other = Settings { context: Some("other".to_owned()), ..settings(&file) };
    let error = Kubernetes::connect(&other).await.unwrap_err();
    assert!(error.class == ErrorClass::Terminal && error.message.contains("other"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_away_is_an_outage() {
    let file = kubeconfig("https://127.0.0.1:1", "", "token: s3cret");
    let target = Kubernetes::connect(&settings(&file)).await.unwrap();
    for error in [unknown(target.observe(&query()).await), target.probe().await.unwrap_err()] {
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Outage { retry_after: None }, "Unreachable")
        );
        assert!(error.message.contains("refused") && !error.message.contains("s3cret"), "{error}");
    }
}

/// A server that says that it is ready, unless `silent`, and answers nothing else.
async fn stuck(silent: bool) -> tempfile::NamedTempFile {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let length = connection.read(&mut request).await.unwrap();
            if !silent && request[..length].starts_with(b"GET /readyz") {
                connection
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                    .await
                    .unwrap();
            }
            open.push(connection);
        }
    });
    kubeconfig(&server, "", "token: a")
}

#[tokio::test]
async fn no_answer_is_an_outage_only_when_the_server_is_not_ready() {
    for (silent, class) in [(true, ErrorClass::Outage { retry_after: None }), (false, ErrorClass::Transient)]
    {
        let file = stuck(silent).await;
        let patient = Settings { timeout: Duration::from_secs(2), ..settings(&file) };
        let target = Kubernetes::connect(&patient).await.unwrap();
        let error = unknown(target.observe(&query()).await);
        assert_eq!((error.class, error.reason.as_str()), (class, "Timeout"), "{error}");
        assert_eq!(target.probe().await.is_err(), silent);
    }
}

on_kubernetes! {
    async fn a_certificate_of_somebody_else_is_an_outage(world: World) {
        let text = fs::read_to_string(world.server.kubeconfig()).unwrap();
        let server = text.split('"').nth(1).unwrap();
        let file = kubeconfig(server, "", "token: admin");
        let target = Kubernetes::connect(&settings(&file)).await.unwrap();
        let error = unknown(target.observe(&world.query("v1", "ConfigMap", "a")).await);
        assert!(matches!(error.class, ErrorClass::Outage { .. }), "{error}");
        assert!(error.message.contains("certificate"), "{error}");
    }

    async fn credentials_that_are_not_accepted_are_an_outage(world: World) {
        let text = fs::read_to_string(world.server.kubeconfig()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text.replace("token: admin", "token: expired")).unwrap();
        let target = Kubernetes::connect(&settings(&file)).await.unwrap();
        let error = unknown(target.observe(&world.query("v1", "ConfigMap", "a")).await);
        assert!(matches!(error.class, ErrorClass::Outage { .. }) && error.reason == "Unauthorized", "{error}");
    }

    async fn requests_are_spread(world: World) {
        let slow = Settings { qps: 0.001, burst: 3, ..World::settings(world.server, "slow") };
        let target = Kubernetes::connect(&slow).await.unwrap();
        let query = world.query("v1", "ConfigMap", "a");
        // One request for the kind, and two for the object.
        for _ in 0..2 {
            assert_eq!(target.observe(&query).await, Observation::Absent);
        }
        let next = tokio::time::timeout(Duration::from_millis(200), target.observe(&query)).await;
        assert!(next.is_err(), "the bucket is empty");
    }
}
