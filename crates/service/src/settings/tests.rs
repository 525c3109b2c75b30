use std::collections::BTreeMap;

use super::*;

static TABLE: &[Key] = &[
    key("server.host", Form::NonEmpty, "localhost", "Host."),
    key("server.port", Form::Integer { min: 0, max: 65_535 }, "8000", "Port."),
    key("server.timeouts.read", Form::Duration { min: Duration::from_millis(1) }, "30s", "Time."),
    key("server.tls.enabled", Form::Bool, "false", "TLS."),
    Key { secret: Secret::Url, ..key("database.url", Form::Text, "", "URL.") },
    Key { secret: Secret::Whole, ..key("database.password", Form::Text, "", "Password.") },
    Key { secret: Secret::Whole, ..key("database.pin", Form::Integer { min: 0, max: 9 }, "0", "Pin.") },
    key("logging.level", Form::Choice(&["info", "debug"]), "info", "Level."),
    key("logging.fields", Form::List, "[a, 'b c']", "Fields."),
    key("entities", Form::Structured, "- kind: A\n  tags: [x]", "Kinds."),
];

struct Given {
    directory: tempfile::TempDir,
    sources: Sources,
}

impl Given {
    fn file(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        Self { directory, sources: Sources { config: Some(file), ..Sources::default() } }
    }

    fn nothing() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), sources: Sources::default() }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn flag(mut self, path: &str, value: &str) -> Self {
        self.sources.flags.push((path.to_owned(), value.to_owned()));
        self
    }

    fn read(&self) -> Settings {
        let (settings, faults) = Settings::read(TABLE, &self.sources);
        assert!(faults.is_empty(), "{faults}");
        settings
    }

    /// The faults as printed, with the file's directory left out.
    fn faults(&self) -> String {
        let (_, faults) = Settings::read(TABLE, &self.sources);
        faults.to_string().replace(&format!("{}/", self.directory.path().display()), "")
    }
}

#[test]
fn flags_beat_the_environment_which_beats_the_file_which_beats_presets_and_defaults() {
    let mut given = Given::file("server: {port: 1, host: from-file}\n")
        .variable("HYPERFLEET_SERVER_PORT", "2")
        .flag("server.port", "3");
    given.sources.presets = vec![("server.host", "preset".into()), ("logging.level", "debug".into())];
    let settings = given.read();
    assert_eq!(settings.integer::<u16>("server.port"), 3);
    assert_eq!(settings.text("server.host"), "from-file");
    assert_eq!(settings.text("logging.level"), "debug");
    assert_eq!(settings.duration("server.timeouts.read"), Duration::from_secs(30));
    assert_eq!(*settings.source("server.port"), Source::Flag("server-port".into()));
    assert_eq!(*settings.source("logging.level"), Source::Preset);
    assert_eq!(*settings.source("server.tls.enabled"), Source::Default);
}

#[test]
fn one_error_lists_every_fault_with_its_path_source_rule_and_value() {
    let given = Given::file(
        "sever: {port: 1}\n\
         server: {port: 70000, hots: x, tls: {enabled: maybe}, timeouts: 5}\n\
         database: {pasword: hunter2, pin: 12, password: 123456}\n\
         logging.level: info\n\
         logging: {level: loud, fields: [1]}\n",
    )
    .variable("HYPERFLEET_SERVER_TIMEOUTS_READ", "30")
    .variable("HYPERFLEET_LOGGING_FIELDS", "[a")
    .flag("server.host", " ")
    .flag("server.prot", "1");
    insta::assert_snapshot!(given.faults(), @r#"
    the configuration has 15 faults:
      - sever (config.yaml): unknown key, did you mean server?
      - server.port (config.yaml): must be a whole number from 0 to 65535, got 70000
      - server.hots (config.yaml): unknown key, did you mean server.host?
      - server.tls.enabled (config.yaml): must be true or false, got "maybe"
      - server.timeouts (config.yaml): must be a mapping of keys, got 5
      - database.pasword (config.yaml): unknown key, did you mean database.password?
      - database.pin (config.yaml): must be a whole number from 0 to 9, got ***
      - database.password (config.yaml): must be text; put it in quotes, got ***
      - logging.level (config.yaml): keys are nested in the file, one level for each dot
      - logging.level (config.yaml): must be one of info, debug, got "loud"
      - logging.fields (config.yaml): must be a list of text such as [a, b], got [1]
      - server.timeouts.read (environment variable HYPERFLEET_SERVER_TIMEOUTS_READ): must be a duration such as 500ms, 5s, 10m, 2h or 7d, from 1ms to 36500d, got "30"
      - logging.fields (environment variable HYPERFLEET_LOGGING_FIELDS): must be YAML: unclosed bracket '[' at line 1, column 1, got "[a"
      - server.host (flag --server-host): must be text and not empty, got " "
      - server.prot (flag --server-prot): unknown key, did you mean server.port?
    "#);
}

#[test]
fn variables_that_no_key_has_and_blank_ones_are_ignored() {
    let settings = Given::nothing()
        .variable("HYPERFLEET_API_PORT_80_TCP", "tcp://10.0.0.1:80")
        .variable("HYPERFLEET_SERVER_PORT", "")
        .variable("HYPERFLEET_CONFIG", " ")
        .read();
    assert_eq!(settings.integer::<u16>("server.port"), 8000);
    assert_eq!(settings.file(), None);
}

#[test]
fn lists_and_subtrees_come_as_yaml_from_variables_and_flags() {
    let settings = Given::nothing()
        .variable("HYPERFLEET_LOGGING_FIELDS", "[pin, 'x y']")
        .flag("entities", "[{kind: B, name_max_len: 12}]")
        .read();
    assert_eq!(settings.list("logging.fields"), ["pin", "x y"]);
    assert_eq!(*settings.structured("entities"), serde_json::json!([{"kind": "B", "name_max_len": 12}]));
}

#[test]
fn the_file_is_the_flag_s_then_the_variable_s_then_the_first_usual_one_that_exists() {
    let given = Given::file("server: {port: 1}\n");
    let directory = given.directory.path().to_owned();
    let second = directory.join("second.yaml");
    std::fs::write(&second, "server: {port: 2}\n").unwrap();
    let mut sources = Sources {
        config: Some(directory.join("config.yaml")),
        usual_files: vec![directory.join("missing.yaml"), second.clone()],
        environment: BTreeMap::from([("HYPERFLEET_CONFIG".into(), second.display().to_string())]),
        ..Sources::default()
    };
    let port = |sources: &Sources| {
        let (settings, faults) = Settings::read(TABLE, sources);
        assert!(faults.is_empty(), "{faults}");
        settings.integer::<u16>("server.port")
    };
    assert_eq!(port(&sources), 1);
    sources.config = None;
    assert_eq!(port(&sources), 2);
    sources.environment.clear();
    assert_eq!(port(&sources), 2);
    sources.usual_files.pop();
    assert_eq!(port(&sources), 8000);
}

#[test]
fn a_named_file_that_is_missing_is_a_fault_and_the_rest_is_still_checked() {
    let mut given = Given::nothing().variable("HYPERFLEET_SERVER_PORT", "x");
    given.sources.config = Some(given.directory.path().join("gone.yaml"));
    let faults = given.faults();
    assert!(faults.contains("flag --config: cannot read gone.yaml"), "{faults}");
    assert!(faults.contains("HYPERFLEET_SERVER_PORT"), "{faults}");
}

#[test]
fn an_empty_file_and_empty_keys_are_an_empty_configuration() {
    for text in ["", "\n", "# nothing\n", "---\n", "server:\n", "server:\n  port:\n"] {
        assert_eq!(Given::file(text).read().integer::<u16>("server.port"), 8000, "{text:?}");
    }
}

#[test]
fn broken_yaml_and_duplicate_keys_name_the_line_and_repeat_no_line_of_the_file() {
    for text in [
        "database:\n  password: hunter2\n  password: hunter3\n",
        "database:\n  password: hunter2\n   x: [\n",
        "database:\n  password: hunter2\n---\nserver: {}\n",
    ] {
        let faults = Given::file(text).faults();
        assert!(faults.contains("config.yaml: "), "{faults}");
        assert!(faults.contains("line "), "{faults}");
        assert!(!faults.contains("hunter"), "{faults}");
    }
}

#[test]
fn a_file_that_is_no_mapping_is_a_fault() {
    assert!(Given::file("[1, 2]\n").faults().contains("config.yaml: must be a mapping of keys"));
}

#[test]
fn quoted_scalars_are_taken_and_yaml_1_1_words_are_text() {
    let settings = Given::file("server: {port: '81', tls: {enabled: 'true'}, host: no}\n").read();
    assert_eq!(settings.integer::<u16>("server.port"), 81);
    assert!(settings.bool("server.tls.enabled"));
    assert_eq!(settings.text("server.host"), "no");
}

#[test]
fn durations_have_a_unit_and_bounds() {
    let form = Form::Duration { min: Duration::from_millis(1) };
    for (text, millis) in
        [("500ms", 500), ("5s", 5_000), ("10m", 600_000), ("2h", 7_200_000), ("7d", 604_800_000)]
    {
        let value = form.read_text(text).unwrap();
        assert_eq!(value, Value::Duration(Duration::from_millis(millis)));
        assert_eq!(value.to_string(), text);
    }
    for text in ["", "5", "s", "-5s", "1.5h", "5 s", "5S", "0s", "40000d", "99999999999999999999d", "١s"] {
        assert!(form.read_text(text).is_err(), "{text}");
    }
}

#[test]
fn the_effective_configuration_masks_secrets_and_names_the_sources() {
    let settings = Given::nothing()
        .variable("HYPERFLEET_DATABASE_URL", "postgres://me:p@s/w@db:5432/fleet?password=more")
        .variable("HYPERFLEET_DATABASE_PASSWORD", "hunter2")
        .flag("entities", "[{kind: B, note: 'a: b', references: [{min: 1}], none: []}]")
        .read();
    insta::assert_snapshot!(settings.to_yaml(), @r#"
    # no configuration file

    server:
      host: localhost
      port: 8000
      timeouts:
        read: 30s
      tls:
        enabled: false

    database:
      url: "postgres://me:***@db:5432/fleet?password=***"  # environment variable HYPERFLEET_DATABASE_URL
      password: "***"  # environment variable HYPERFLEET_DATABASE_PASSWORD
      pin: 0

    logging:
      level: info
      fields: [a, "b c"]

    entities:  # flag --entities
      - kind: B
        note: "a: b"
        references:
          - min: 1
        none: []
    "#);
}

#[test]
fn the_effective_configuration_loads_as_what_it_shows() {
    let settings = Given::file("server: {host: 'on', port: 0}\nlogging: {fields: ['1', '', 'a, b', 'é']}\n")
        .flag("entities", "[{kind: '0x1', tags: ['~', \"a\\nb\"], deep: [{a: {b: [1, 2.5]}}]}, {}]")
        .read();
    let again = Given::file(&settings.to_yaml()).read();
    for entry in &settings.entries {
        assert_eq!(entry.value, again.entry(entry.key.path).value, "{}", entry.key.path);
    }
}

#[test]
fn the_example_holds_every_default_and_every_doc_sentence() {
    let text = example(TABLE);
    let settings = Given::file(&text).read();
    for key in TABLE {
        assert_eq!(settings.entry(key.path).value, key.default_value(), "{}", key.path);
        assert!(text.contains(key.doc));
    }
    insta::assert_snapshot!(text, @r#"
    server:
      # Host.
      host: localhost
      # Port.
      port: 8000
      timeouts:
        # Time.
        read: 30s
      tls:
        # TLS.
        enabled: false

    database:
      # URL.
      url: ""
      # Password.
      password: ""
      # Pin.
      pin: 0

    logging:
      # Level. One of info, debug.
      level: info
      # Fields.
      fields: [a, "b c"]

    # Kinds.
    entities:
      - kind: A
        tags: [x]
    "#);
}

#[test]
fn a_row_of_the_documentation_has_key_default_and_meaning() {
    let table = markdown(TABLE);
    assert!(table.contains("| `server.port` | `8000` | Port. |"), "{table}");
    assert!(table.contains("Level. One of info, debug."), "{table}");
}

#[test]
fn keys_without_effect_are_listed_beside_the_table() {
    static KEYS: &[Key] = &[
        key("a.b", Form::Text, "", NO_EFFECT),
        key("a.c", Form::Text, "", "C."),
        key("d", Form::Bool, "false", NO_EFFECT),
    ];
    assert_eq!(markdown(KEYS), "| Key | Default | Meaning |\n|---|---|---|\n| `a.c` |  | C. |\n");
    assert_eq!(without_effect(KEYS), "`a.b`, `d`");
}
