//! Configuration: precedence of sources, masked secrets, and all faults at once before anything is opened.

use super::program::Program;

#[tokio::test]
async fn config_masks_every_secret() {
    let whole = Program::new().env("HYPERFLEET_DATABASE_PASSWORD", "hunter2");
    let shown = whole.run(&["config", "--database-host", "db"]).await;
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    assert!(
        shown.stdout.contains(r#"password: "***"  # environment variable HYPERFLEET_DATABASE_PASSWORD"#),
        "{}",
        shown.stdout
    );
    assert!(!shown.stdout.contains("hunter2"));

    let url = Program::new().run(&["config", "--database-url", "postgres://me:hunter2@db/x"]).await.stdout;
    assert!(url.contains(r#"url: "postgres://me:***@db/x"  # flag --database-url"#), "{url}");
    assert!(!url.contains("hunter2"));
}

#[tokio::test]
async fn print_config_prints_the_configuration_instead_of_serving() {
    let program = Program::new()
        .env("HYPERFLEET_DATABASE_PASSWORD", "hunter2")
        .env("HYPERFLEET_BROKER_RABBITMQ_URL", "amqp://me:hunter2@broker");
    for (printing, shown) in [
        (&["serve", "--print-config", "--server-port", "3001"][..], &["config", "--server-port", "3001"][..]),
        (
            &["sentinel", "serve", "--print-config", "--broker-type", "rabbitmq"],
            &["sentinel", "config", "--broker-type", "rabbitmq"],
        ),
    ] {
        let (printed, shown) = (program.run(printing).await, program.run(shown).await);
        assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{printing:?}");
        assert_eq!(printed.stdout, shown.stdout, "{printing:?}");
        assert!(printed.stdout.contains("***") && !printed.stdout.contains("hunter2"), "{}", printed.stdout);
    }
    let adapter = program.run(&["adapter", "simulate", "--print-config", "--broker-type", "rabbitmq"]).await;
    assert_eq!((adapter.code, adapter.stderr.as_str()), (Some(0), ""));
    assert!(adapter.stdout.contains("type: rabbitmq  # flag --broker-type"), "{}", adapter.stdout);
    assert!(adapter.stdout.contains("***") && !adapter.stdout.contains("hunter2"), "{}", adapter.stdout);
    let faulty = program.run(&["serve", "--print-config", "--server-port", "x"]).await;
    assert_eq!((faulty.code, faulty.stdout.as_str()), (Some(2), ""));
}

#[tokio::test]
async fn flags_beat_the_environment_which_beats_the_file_which_beats_defaults() {
    let program = Program::new()
        .file("configs/config.yaml", "server: {port: 1001, host: file.test}\nmetrics: {port: 1002}\n")
        .file("named.yaml", "server: {port: 4001}\n")
        .env("HYPERFLEET_SERVER_PORT", "2001")
        .env("HYPERFLEET_SERVER_HOST", "environment.test")
        .env("HYPERFLEET_HEALTH_PORT", " ");
    let values = async |arguments: &[&str]| {
        let shown = program.run(arguments).await;
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
        let told = |line: &&str| ["host:", "port:", "#"].iter().any(|start| line.trim().starts_with(start));
        shown.stdout.lines().filter(told).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(values(&["config", "--server-port", "3001"]).await, @r#"
    # configuration file: ./configs/config.yaml
    host: environment.test  # environment variable HYPERFLEET_SERVER_HOST
    port: 3001  # flag --server-port
    host: ""
    port: 5432
    host: localhost
    port: 1002  # ./configs/config.yaml
    host: localhost
    port: 8080
    "#);
    let named = values(&["config", "--config", "named.yaml"]).await;
    assert!(named.starts_with("# configuration file: named.yaml"), "{named}");
    assert!(!named.contains("1002"), "one file is read, not two: {named}");
}

#[tokio::test]
async fn the_example_file_loads_and_states_the_defaults() {
    let program = Program::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/example.yaml");
    let values = |text: &str| {
        let bare = text.lines().filter(|line| !line.starts_with('#'));
        bare.map(|line| line.split("  # ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let loaded = program.run(&["config", "--config", example]).await;
    assert_eq!((loaded.code, loaded.stderr.as_str()), (Some(0), ""));
    let defaults = program.run(&["config"]).await.stdout;
    assert_eq!(values(&loaded.stdout), values(&defaults));

    // What `config` prints is a configuration again.
    let program = program.file("printed.yaml", &defaults);
    let again = program.run(&["config", "--config", "printed.yaml"]).await;
    assert_eq!(values(&again.stdout), values(&defaults), "{}", again.stderr);
}

#[tokio::test]
async fn every_fault_of_the_configuration_is_reported_at_once() {
    let program = Program::new()
        .file(
            "bad.yaml",
            "server:\n  prot: 8000\n  port: eighty\n  tls: {enabled: true}\n\
             database: {url: 'mysql://me:hunter2@db/x', password: [hunter3]}\n\
             logging: {level: loud}\nhistory: {retention: soon}\nserverr: {}\nzzz: 1\n",
        )
        .env("HYPERFLEET_DATABASE_POOL_MAX_CONNECTIONS", "0");
    for command in ["serve", "up", "migrate", "config"] {
        let ended = program.run(&[command, "--config", "bad.yaml", "--health-port", "99999"]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{command}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ended.stderr, @r#"
            error: the configuration has 12 faults:
              - server.prot (bad.yaml): unknown key, did you mean server.port?
              - server.port (bad.yaml): must be a whole number from 0 to 65535, got "eighty"
              - database.password (bad.yaml): must be text; put it in quotes, got ***
              - logging.level (bad.yaml): must be one of error, warn, info, debug, trace, got "loud"
              - history.retention (bad.yaml): must be a duration such as 500ms, 5s, 10m, 2h or 7d, from 1ms to 36500d, got "soon"
              - serverr (bad.yaml): unknown key, did you mean server?
              - zzz (bad.yaml): unknown key
              - database.pool.max_connections (environment variable HYPERFLEET_DATABASE_POOL_MAX_CONNECTIONS): must be a whole number from 1 to 10000, got "0"
              - health.port (flag --health-port): must be a whole number from 0 to 65535, got "99999"
              - server.tls.cert_file (default): required when server.tls.enabled is true
              - server.tls.key_file (default): required when server.tls.enabled is true
              - database.url (bad.yaml): must be sqlite:<path>, sqlite::memory: or postgres://…, got "mysql://me:***@db/x"
            "#);
        }
    }
}

#[tokio::test]
async fn a_named_configuration_file_must_exist_and_be_yaml() {
    let program = Program::new().file("broken.yaml", "server: [");
    let absent = program.run(&["config", "--config", "absent.yaml", "--server-port", "x"]).await;
    assert_eq!((absent.code, absent.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(absent.stderr, @r#"
    error: the configuration has 2 faults:
      - flag --config: cannot read absent.yaml: No such file or directory (os error 2)
      - server.port (flag --server-port): must be a whole number from 0 to 65535, got "x"
    "#);
    let variable = Program::new().env("HYPERFLEET_CONFIG", "gone.yaml").run(&["config"]).await;
    assert_eq!(variable.code, Some(2));
    assert!(variable.stderr.contains("environment variable HYPERFLEET_CONFIG: cannot read gone.yaml"));
    let broken = program.run(&["config", "--config", "broken.yaml"]).await;
    assert_eq!(broken.code, Some(2));
    assert!(broken.stderr.contains("broken.yaml: "), "{}", broken.stderr);
}

#[tokio::test]
async fn every_fault_of_the_kinds_is_reported_at_once() {
    let program = Program::new().file(
        "kinds.yaml",
        "entities:
  - {kind: Orphan, plural: orphans, parent_kind: Nobody, on_parent_delete: explode}
  - {kind: Hen, plural: hens, parent_kind: Egg, on_parent_delete: cascade}
  - {kind: Egg, plural: eggs, parent_kind: Hen, on_parent_delete: restrict}
  - {kind: Hen, plural: eggs}
  - {kind: Pool, plural: pools, parent_kind: Net}
  - kind: Net
    plural: nets
    references:
      - {ref_type: peer, target_kind: Ghost}
      - {ref_type: peer, target_kind: Net, min: 3, max: 2}
  - {kind: Res, plural: resources, colour: red}
  - {kind: '', plural: '', name_min_len: 9, name_max_len: 3}
  - {kind: Key, plural: keys, references: [{ref_type: lock, target_kind: Lock, min: 1}]}
  - {kind: Lock, plural: locks, references: [{ref_type: key, target_kind: Key, min: 1}], require_spec_schema: true}
",
    );
    let ended = program.run(&["serve", "--config", "kinds.yaml"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(ended.stderr, @r"
    error: the configuration has 19 faults:
      - entities[6].colour (kinds.yaml): unknown field `colour`, expected one of `kind`, `plural`, `parent_kind`, `on_parent_delete`, `required_adapters`, `spec_schema_name`, `require_spec_schema`, `references`, `conditions`, `name_min_len`, `name_max_len`
      - entities[0].on_parent_delete (kinds.yaml): must be cascade or restrict, not 'explode'
      - entities[4].on_parent_delete (kinds.yaml): required for a child kind: cascade or restrict
      - entities[6].plural (kinds.yaml): 'resources' is taken by the API itself
      - entities[7].kind (kinds.yaml): must be 1 to 63 letters and digits, starting with a letter, not ''
      - entities[7].plural (kinds.yaml): must be 1 to 63 lower-case letters, digits, '-' and '.', starting with a letter, not ''
      - entities[7].name_min_len (kinds.yaml): names must be allowed at least 1 and at most 253 characters, not 9 to 3
      - entities[9].spec_schema_name (kinds.yaml): required when require_spec_schema is true
      - entities[3].kind (kinds.yaml): 'Hen' is declared by entities[1] already
      - entities[3].plural (kinds.yaml): 'eggs' is declared by entities[2] already
      - entities[0].parent_kind (kinds.yaml): no entity of kind 'Nobody' is declared
      - entities[1].parent_kind (kinds.yaml): 'Hen' owns itself through 'Egg'
      - entities[2].parent_kind (kinds.yaml): 'Egg' owns itself through 'Hen'
      - entities[5].references[0].target_kind (kinds.yaml): no entity of kind 'Ghost' is declared
      - entities[5].references[1].ref_type (kinds.yaml): 'peer' is declared twice
      - entities[5].references[1].max (kinds.yaml): must be at least min (3), not 2
      - entities[5].references (kinds.yaml): 'Net' requires itself through required references (Net)
      - entities[8].references (kinds.yaml): 'Key' requires itself through required references (Lock, Key)
      - entities[9].references (kinds.yaml): 'Lock' requires itself through required references (Key, Lock)
    ");
}

#[tokio::test]
async fn a_missing_required_spec_schema_stops_the_start() {
    let program = Program::new()
        .file("api.yaml", "openapi: 3.0.3\ncomponents: {schemas: {Other: {type: object}}}\n")
        .file("config.yaml", "server: {jwt: {enabled: false}, openapi_schema_path: api.yaml}\nentities: [{kind: A, plural: as, spec_schema_name: ASpec, require_spec_schema: true}]\n");
    let ended = program.run(&["serve", "--config", "config.yaml", "--database-url", "sqlite::memory:"]).await;
    assert_eq!(ended.code, Some(2));
    insta::assert_snapshot!(ended.stderr, @r"
    error: the configuration has faults:
      entities[0].spec_schema_name: the schema 'ASpec' is required but not a component of server.openapi_schema_path
    ");
}

#[tokio::test]
async fn a_spec_schema_that_cannot_be_bounded_stops_the_start() {
    let schema = r"
openapi: 3.1.0
components:
  schemas:
    ASpec:
      properties: {twice: {pattern: '^(.+)=\1$'}}
      anyOf: [{type: object}, {$ref: '#/components/schemas/ASpec'}]
";
    let program = Program::new()
        .file("api.yaml", schema)
        .file("config.yaml", "server: {jwt: {enabled: false}, openapi_schema_path: api.yaml}\nentities: [{kind: A, plural: as, spec_schema_name: ASpec}]\n");
    let ended = program.run(&["serve", "--config", "config.yaml", "--database-url", "sqlite::memory:"]).await;
    assert_eq!(ended.code, Some(2));
    insta::assert_snapshot!(ended.stderr, @r"
    error: the configuration has faults:
      entities[0].spec_schema_name: the schema 'ASpec' cannot be used: #/components/schemas/ASpec/properties/twice/pattern: a back-reference cannot be matched in bounded time
      entities[0].spec_schema_name: the schema 'ASpec' cannot be used: #/components/schemas/ASpec: the schema refers to itself without entering a member or an item, which never ends
    ");
}

#[tokio::test]
async fn serve_without_a_token_issuer_names_the_remedy() {
    let ended = Program::new().run(&["serve"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(ended.stderr, @r"
    error: server.jwt.enabled is true (default) and no issuer of tokens is configured, so every request would be refused.
    Name one in server.jwt.configs. To serve without authentication, turn it off with one of
      server.jwt.enabled: false               in the configuration file
      HYPERFLEET_SERVER_JWT_ENABLED=false     in the environment
      --server-jwt-enabled=false              on the command line
    and keep the API on loopback or behind a proxy that authenticates.
    ");
}

#[tokio::test]
async fn a_database_file_that_cannot_be_opened_is_named() {
    let program = Program::new().file("notes.txt", "This is no database, and it is long enough to show it.");
    for (url, told) in [
        (
            "sqlite:absent/x.db",
            "error: cannot open the SQLite database absent/x.db: unable to open database file",
        ),
        ("sqlite:notes.txt", "error: cannot open the SQLite database notes.txt: file is not a database"),
    ] {
        for command in [&["migrate"][..], &["serve", "--server-jwt-enabled=false", "--server-port=0"]] {
            let ended = program
                .run(&[command, &["--health-port=0", "--metrics-port=0", "--database-url", url]].concat())
                .await;
            assert_eq!(ended.code, Some(1));
            assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
        }
    }
}
