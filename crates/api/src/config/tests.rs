use std::path::Path;

use hyperfleet_service::settings;
use hyperfleet_service::tls::TlsFiles;
use hyperfleet_store::SslMode;

use super::*;

fn load(flags: &[(&str, &str)]) -> Result<Config, Faults> {
    let flags = flags.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    Config::load(&Sources { flags, ..Sources::default() })
}

fn faults(flags: &[(&str, &str)]) -> Vec<String> {
    load(flags).unwrap_err().iter().map(ToString::to_string).collect()
}

fn backend(flags: &[(&str, &str)]) -> Backend {
    load(flags).unwrap().database.backend().clone()
}

fn postgres(url: &str, ssl_mode: SslMode, root_cert_file: Option<&str>) -> Backend {
    let root_cert_file = root_cert_file.map(PathBuf::from);
    Backend::Postgres { url: url.to_owned(), ssl_mode, root_cert_file }
}

#[test]
fn without_any_source_the_defaults_hold() {
    let config = load(&[]).unwrap();
    assert_eq!(config.server.bind, Bind { host: "localhost".into(), port: 8000, tls: None });
    assert_eq!(config.metrics.bind.port, 9090);
    assert_eq!(config.health.bind.port, 8080);
    assert_eq!(config.server.limits.body_bytes, 1 << 20);
    assert_eq!(config.database.pool.request_timeout, Duration::from_secs(30));
    assert!(config.database.migrate_at_start);
    assert_eq!(config.history.retention, Duration::from_secs(30 * 24 * 3600));
    assert_eq!(*config.database.backend(), Backend::Sqlite { path: Some("./hyperfleet.db".into()) });
    assert_eq!(config.logging.masking.headers[0], "Authorization");
    assert!(!config.server.hostname.is_empty());
}

#[test]
fn the_default_kinds_are_those_of_the_catalog() {
    let config = load(&[]).unwrap();
    assert_eq!(config.entities, Catalog::default_descriptors());
    assert_eq!(config.catalog.kinds().count(), 2);
}

#[test]
fn every_fault_of_every_kind_is_reported_together() {
    let faults = faults(&[
        ("server.port", "eighty"),
        ("server.tls.enabled", "true"),
        ("health.tls.enabled", "true"),
        ("health.tls.cert_file", "/a"),
        ("database.url", "mysql://me:pw@db/x"),
        ("logging.level", "loud"),
        (
            "entities",
            "[{kind: A, plural: as, colour: red, name_min_len: many}, 7, \
              {kind: B, plural: as, parent_kind: C, on_parent_delete: 1, references: [{min: -1}]}]",
        ),
    ]);
    insta::assert_snapshot!(faults.join("\n"), @r#"
    server.port (flag --server-port): must be a whole number from 0 to 65535, got "eighty"
    logging.level (flag --logging-level): must be one of error, warn, info, debug, trace, got "loud"
    server.tls.cert_file (default): required when server.tls.enabled is true
    server.tls.key_file (default): required when server.tls.enabled is true
    database.url (flag --database-url): must be sqlite:<path>, sqlite::memory: or postgres://…, got "mysql://me:***@db/x"
    health.tls.key_file (default): required when health.tls.enabled is true
    entities[0].colour (flag --entities): unknown field `colour`, expected one of `kind`, `plural`, `parent_kind`, `on_parent_delete`, `required_adapters`, `spec_schema_name`, `require_spec_schema`, `references`, `conditions`, `name_min_len`, `name_max_len`
    entities[0].name_min_len (flag --entities): must be a whole number from 0, not "many"
    entities[1] (flag --entities): must be a mapping, not 7
    entities[2].on_parent_delete (flag --entities): must be text, not 1
    entities[2].references[0].min (flag --entities): must be a whole number from 0, not -1
    entities[2].plural (flag --entities): 'as' is declared by entities[0] already
    entities[2].parent_kind (flag --entities): no entity of kind 'C' is declared
    entities[2].references[0].ref_type (flag --entities): must be 1 to 63 characters, not ''
    "#);
}

#[test]
fn a_database_is_meant_by_url_or_by_parts() {
    let sqlite = |path: &str| Backend::Sqlite { path: Some(path.into()) };
    assert_eq!(backend(&[("database.url", "sqlite:data/x.db")]), sqlite("data/x.db"));
    assert_eq!(backend(&[("database.url", "sqlite:/data/x.db")]), sqlite("/data/x.db"));
    assert_eq!(backend(&[("database.url", "sqlite:///data/x.db")]), sqlite("/data/x.db"));
    assert_eq!(backend(&[("database.url", "sqlite::memory:")]), Backend::Sqlite { path: None });
    assert_eq!(
        backend(&[("database.url", "postgresql://me:pw@db:1/x?application_name=a")]),
        postgres("postgresql://me:pw@db:1/x?application_name=a", SslMode::Prefer, None)
    );
    assert_eq!(
        backend(&[
            ("database.host", "db.example.com"),
            ("database.username", "me@home"),
            ("database.password", "p:w/ä%"),
            ("database.name", "my fleet"),
            ("database.ssl.mode", "verify-full"),
            ("database.ssl.root_cert_file", "/ca.pem"),
        ]),
        postgres(
            "postgres://me%40home:p%3Aw%2F%C3%A4%25@db.example.com:5432/my%20fleet",
            SslMode::VerifyFull,
            Some("/ca.pem")
        )
    );
    assert_eq!(
        backend(&[("database.host", "::1"), ("database.port", "1")]),
        postgres("postgres://[::1]:1/hyperfleet", SslMode::Prefer, None)
    );
    assert_eq!(
        backend(&[("database.host", "/run/postgresql")]),
        postgres("postgres://%2Frun%2Fpostgresql:5432/hyperfleet", SslMode::Prefer, None)
    );
}

#[test]
fn tls_parameters_of_a_url_are_understood_and_must_not_contradict_the_keys() {
    let url = "postgres://db/x?sslmode=verify-ca&connect_timeout=5&sslrootcert=%2Fa%20b.pem";
    let expected = postgres("postgres://db/x?connect_timeout=5", SslMode::VerifyCa, Some("/a b.pem"));
    assert_eq!(backend(&[("database.url", url)]), expected);
    assert_eq!(backend(&[("database.url", url), ("database.ssl.mode", "verify-ca")]), expected);
    let contradiction = faults(&[("database.url", url), ("database.ssl.mode", "disable")]);
    assert!(
        contradiction[0].contains("contradict database.ssl.mode (flag --database-ssl-mode)"),
        "{contradiction:?}"
    );
    assert!(faults(&[("database.url", "postgres://db/x?sslmode=maybe")])[0].contains("sslmode must be"));
    assert!(faults(&[("database.url", "postgres://db/x?sslrootcert=%f")])[0].contains("%-escape"));
}

#[test]
fn url_and_host_together_are_a_fault_and_so_is_an_empty_path() {
    let both = faults(&[("database.url", "sqlite:x"), ("database.host", "db")]);
    assert!(both[0].starts_with("database.host (flag --database-host): cannot stand together"), "{both:?}");
    assert!(faults(&[("database.url", "sqlite:")])[0].contains("must be sqlite:<path>"));
}

#[test]
fn no_password_is_ever_printed() {
    let config = load(&[("database.url", "postgres://me:hunter2@db/x?password=hunter2")]).unwrap();
    let parts = load(&[("database.host", "db"), ("database.password", "hunter2")]).unwrap();
    assert!(config.settings.to_yaml().contains("postgres://me:***@db/x"));
    for shown in [config.settings.to_yaml(), parts.settings.to_yaml(), format!("{:?}", config.database)] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn certificates_are_there_exactly_when_tls_is_on() {
    let files = [("metrics.tls.cert_file", "/c"), ("metrics.tls.key_file", "/k")];
    assert_eq!(load(&files).unwrap().metrics.bind.tls, None);
    let on = load(&[files[0], files[1], ("metrics.tls.enabled", "true")]).unwrap();
    let expected = TlsFiles { cert_file: "/c".into(), key_file: "/k".into() };
    assert_eq!(on.metrics.bind.tls, Some(expected));
}

#[test]
fn a_configuration_that_admits_no_caller_is_refused_with_advice() {
    let refusal = load(&[]).unwrap().check_serving().unwrap_err();
    for advice in [
        "server.jwt.enabled: false",
        "HYPERFLEET_SERVER_JWT_ENABLED=false",
        "--server-jwt-enabled=false",
        "no issuer",
        "(default)",
    ] {
        assert!(refusal.contains(advice), "{refusal}");
    }
    assert_eq!(load(&[("server.jwt.enabled", "false")]).unwrap().check_serving(), Ok(()));
}

#[test]
fn a_header_of_tenants_cannot_make_callers_part_of_the_system() {
    let tenants = |system| {
        load(&[
            ("server.tenant.enabled", "true"),
            ("server.tenant.dimensions", "[{header: X-Org, key: org, required: true}]"),
            ("server.tenant.system_header", system),
        ])
    };
    assert!(tenants("X-System").is_ok());
    for system in ["X-Org", "x-org", "not a header"] {
        let faults = tenants(system).unwrap_err();
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(
            matches!(faults.as_slice(), [fault] if fault.contains("server.tenant.system_header")),
            "{faults:?}"
        );
    }
}

#[test]
fn no_two_keys_share_a_variable_or_a_flag() {
    for (i, key) in KEYS.iter().enumerate() {
        for other in &KEYS[..i] {
            assert_ne!(key.variable(), other.variable());
            assert_ne!(key.flag(), other.flag());
        }
        assert_ne!(key.variable(), "HYPERFLEET_CONFIG");
    }
}

#[test]
fn the_example_file_holds_exactly_the_keys_their_meanings_and_their_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/example.yaml");
    let file = std::fs::read_to_string(&path).unwrap();
    let keys = settings::example(KEYS);
    let (_, written) = file.split_at(file.find("server:\n").unwrap_or_default());
    assert_eq!(written, keys, "\nbelow its first comment configs/example.yaml should be\n\n{keys}");

    let loaded = Config::load(&Sources { config: Some(path), ..Sources::default() }).unwrap();
    let defaults = load(&[]).unwrap();
    for key in KEYS {
        let (loaded, default) = (loaded.settings.value(key.path), defaults.settings.value(key.path));
        assert_eq!(loaded, default, "{} in configs/example.yaml", key.path);
    }
}

#[test]
fn the_reference_lists_every_key() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    let table = settings::markdown(KEYS);
    assert!(page.contains(&format!("\n\n{table}\n")), "docs/reference/configuration.md must have:\n{table}");
    let inert = settings::without_effect(KEYS);
    assert!(page.contains(&inert), "docs/reference/configuration.md must name {inert}");
}
