//! `doctor`: what it finds, what it advises, and how it ends.

use serde_json::Value;

use super::Cli;
use super::proxy::Proxy;
use crate::operations::program::{Ended, Program};
use crate::support::{App, DEFAULT, any_store, launch, run};

/// Level and fix of one check of a call with `-o json`.
#[track_caller]
fn check(ended: &Ended, what: &str) -> (String, String) {
    let checks: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let found = checks.as_array().unwrap().iter().find(|check| check["check"] == what);
    let text = |name: &str| found.unwrap()[name].as_str().unwrap_or_default().to_owned();
    (text("level"), text("fix"))
}

async fn doctor_reports_ok_for_every_check(app: &App) {
    insta::assert_snapshot!(Cli::of(app).transcript("doctor").await, @"
    ok    settings    http://[server] by HYPERFLEET_SERVER; token: none
    ok    server      answers
    ok    encryption  none, and none is needed on this machine
    ok    version     server 1.0.0, this program 1.0.0
    ok    clock       [age] apart
    ok    readiness   the server is ready
    ok    identity    system@hyperfleet.local
    ok    kinds       clusters, nodepools
    ");
}

async fn doctor_ends_with_the_exit_code_of_unreadable_kinds(app: &App) {
    const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let proxy =
        Proxy::of(app, |request| Box::pin(async move { request.contains("/openapi").then_some(FORBIDDEN) }));
    let ended = Cli::at(&proxy.await.server).run("doctor -o json").await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert_eq!((check(&ended, "identity").0.as_str(), check(&ended, "kinds").0.as_str()), ("ok", "fail"));
}

async fn doctor_refuses_wide_and_name(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    for line in ["doctor", "whoami", "why cluster prod-1", "timeline cluster prod-1"] {
        for form in ["name", "wide"] {
            let ended = cli.run(&format!("{line} -o {form}")).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line} -o {form}");
            assert!(ended.stderr.contains("one of table, json, yaml, jsonpath=TEMPLATE"), "{ended:?}");
        }
    }
}

async fn doctor_colours_levels(app: &App) {
    let cli = Cli::of(app).env("CLICOLOR_FORCE", "1");
    let good = cli.ok("doctor").await;
    assert!(good.starts_with("\x1b[32mok  \x1b[0m  settings"), "{good:?}");
    let bad = cli.run("doctor --server http://127.0.0.1:1").await;
    assert!(bad.stdout.contains("\x1b[31mfail\x1b[0m  server"), "{bad:?}");
}

#[test]
fn doctor_advises_on_an_unreachable_server() {
    run(async {
        let cli = Cli::at("http://127.0.0.1:1");
        insta::assert_snapshot!(cli.transcript("doctor").await, @"
        ok    settings    http://[server] by HYPERFLEET_SERVER; token: none
        fail  server      GET http://[server]/api/hyperfleet/metadata cannot be reached: client error (Connect): tcp connect error: Connection refused (os error 111)
                          → start it (`hyperfleet up`), or name another by --server or `hyperfleet context use`
        --- exit 6
        ");
        let ended = cli.run("doctor -o json").await;
        assert_eq!(ended.code, Some(6));
        let (level, fix) = check(&ended, "server");
        assert!(level == "fail" && fix.contains("hyperfleet up"), "{fix}");
    });
}

#[test]
fn doctor_advises_on_a_missing_token() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let jwks = directory.path().join("jwks.json");
        std::fs::write(&jwks, "{\"keys\": []}").unwrap();
        let config = format!(
            "server: {{jwt: {{enabled: true, configs: [{{issuer_url: 'https://issuer.test', jwk_cert_file: '{}'}}]}}}}",
            jwks.display()
        );
        let launched = launch().config(config).env("HYPERFLEET_SERVER_JWT_ENABLED", "true").start().await;
        let server = launched.unwrap();
        let cli = Cli::at(&format!("http://{}", server.api().authority()));
        for cli in
            [cli, Cli::at(&format!("http://{}", server.api().authority())).env("HYPERFLEET_TOKEN", "stale")]
        {
            let ended = cli.run("doctor -o json").await;
            assert_eq!(ended.code, Some(5), "{ended:?}");
            assert_eq!(check(&ended, "server").0, "ok");
            assert_eq!(check(&ended, "readiness").0, "ok");
            let (level, fix) = check(&ended, "identity");
            assert!(level == "fail" && fix.contains("hyperfleet login"), "{fix}");
        }
    });
}

#[test]
fn doctor_names_the_file_of_a_faulty_setting() {
    run(async {
        let cli = Cli::at("").file("contexts.yaml", "currant: x");
        insta::assert_snapshot!(
            cli.transcript("doctor").await.replace(cli.program.directory().to_str().unwrap(), "[directory]"), @"
        fail  settings    [directory]/contexts.yaml: currant: unknown member or wrong type
                          → see `hyperfleet context list`, `hyperfleet login`, and [directory]/contexts.yaml
        --- exit 2
        ");
        let cli = cli.file(
            "contexts.yaml",
            "current: lab\ncontexts: {lab: {server: 'http://127.0.0.1:1', token_file: /nowhere}}\n",
        );
        for line in ["doctor -o json --context absent", "doctor -o json", "doctor -o json --server ftp://x"] {
            let ended = cli.run(line).await;
            assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
            let failed: Value = serde_json::from_str(&ended.stdout).unwrap();
            let failed = failed.as_array().unwrap().last().unwrap().clone();
            assert_eq!((&failed["check"], &failed["level"]), (&"settings".into(), &"fail".into()), "{line}");
        }
    });
}

#[test]
fn a_certificate_is_trusted_by_its_authority_alone() {
    run(async {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let mut program = Program::new()
            .file("server.crt", &made.cert.pem())
            .file("server.key", &made.signing_key.serialize_pem())
            .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
            .env("HYPERFLEET_DATABASE_URL", "sqlite::memory:")
            .env("HYPERFLEET_SERVER_TLS_ENABLED", "true")
            .env("HYPERFLEET_SERVER_TLS_CERT_FILE", "server.crt")
            .env("HYPERFLEET_SERVER_TLS_KEY_FILE", "server.key");
        for listener in ["SERVER", "HEALTH", "METRICS"] {
            program = program.env(&format!("HYPERFLEET_{listener}_PORT"), "0");
        }
        let running = program.start(&["serve"]);
        let api = running.client("api").await;
        let port = api.authority().rsplit_once(':').unwrap().1.to_owned();
        let cli = Cli::at(&format!("https://localhost:{port}"));
        let ended = cli.run("doctor -o json").await;
        assert_eq!(ended.code, Some(6), "{ended:?}");
        let (level, fix) = check(&ended, "encryption");
        assert!(level == "fail" && fix.contains("--ca-file"), "{fix}");
        let authority = program.directory().join("server.crt");
        let ended = cli.run(&format!("doctor -o json --ca-file {}", authority.display())).await;
        assert_eq!((ended.code, check(&ended, "encryption").0.as_str()), (Some(0), "ok"), "{ended:?}");
    });
}

#[test]
fn doctor_recognises_another_server() {
    run(async {
        let app = App::sqlite(DEFAULT).await;
        // The metrics listener speaks HTTP, but not the API.
        let cli = Cli::at(&format!("http://{}", app.server.metrics().authority()));
        let ended = cli.run("doctor -o json").await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(check(&ended, "server").1.contains("this is not HyperFleet's API"));
        let ended = Cli::at(&format!("https://{}", app.api().authority())).run("doctor -o json").await;
        assert_eq!(ended.code, Some(6), "{ended:?}");
        assert!(check(&ended, "encryption").1.contains("does not speak TLS"));
    });
}

any_store!(
    doctor_reports_ok_for_every_check,
    doctor_ends_with_the_exit_code_of_unreadable_kinds,
    doctor_refuses_wide_and_name,
    doctor_colours_levels,
);
