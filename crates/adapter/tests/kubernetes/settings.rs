//! How the target is reached, and what follows when it is not.

use std::fs;
use std::time::Duration;

use hyperfleet_adapter::targets::ErrorClass;
use hyperfleet_adapter::targets::kubernetes::{Kubernetes, Settings};
use serde_json::json;

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
    let query = hyperfleet_adapter::targets::Query {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("a".to_owned()),
        matcher: hyperfleet_adapter::targets::Matcher::Name("a".to_owned()),
    };
    for error in [unknown(target.observe(&query).await), target.probe().await.unwrap_err()] {
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Outage { retry_after: None }, "Unreachable")
        );
        assert!(error.message.contains("refused") && !error.message.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unknown() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let file = kubeconfig(&server, "", "token: a");
    let target = Kubernetes::connect(&Settings { timeout: Duration::from_millis(100), ..settings(&file) })
        .await
        .unwrap();
    let error = target.probe().await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Transient, "Timeout"));
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
        let slow = Settings { qps: 0.001, burst: 3, timeout: Duration::from_secs(30), ..World::settings(world.server, "slow") };
        let target = Kubernetes::connect(&slow).await.unwrap();
        for _ in 0..3 {
            target.probe().await.unwrap();
        }
        let next = tokio::time::timeout(Duration::from_millis(200), target.probe()).await;
        assert!(next.is_err(), "the bucket is empty: {}", json!(next.is_ok()));
    }
}
