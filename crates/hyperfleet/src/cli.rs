//! The command line. Every configuration key is a flag of the commands that read the
//! configuration, made from the same table as the documentation.

#[cfg(test)]
mod reference;

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_api::config::KEYS;
use hyperfleet_events::config::KEYS as BROKER_KEYS;
use hyperfleet_sentinel::config::{Config as SentinelConfig, KEYS as SENTINEL_KEYS};
use hyperfleet_service::settings::{Key, Sources};

use crate::commands::{
    adapter, api, apply, complete, context, create, delete, describe, diff, doctor, edit, events,
    force_delete, get, label, login, man, patch, report, statuses, timeline, top, tree, up, wait, whoami,
    why,
};
use crate::output::Colours;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const FIRST_STEPS: &str = "First steps:
  hyperfleet up --demo              everything in one process, with a fleet that lives
  hyperfleet up                     the same without a fleet, data in ./hyperfleet.db
  hyperfleet create cluster my-first --label environment=dev
  hyperfleet get clusters           then: describe, tree, why, apply -f, delete
  open http://localhost:8000/api/hyperfleet/v1/openapi.html

In production:
  hyperfleet migrate --database-url postgres://…    bring the schema up to date
  hyperfleet serve --config /etc/hyperfleet/config.yaml
  hyperfleet sentinel serve --config /etc/hyperfleet/sentinel.yaml
  hyperfleet config                 what is configured, and where each value came from";

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("hyperfleet")
        .about("Keeps the desired state of fleets, and says whether the world matches it")
        .version(env!("CARGO_PKG_VERSION"))
        .styles(STYLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(FIRST_STEPS)
        .arg(
            Arg::new("color")
                .long("color")
                .value_name("WHEN")
                .value_parser(["auto", "always", "never"])
                .default_value("auto")
                .global(true)
                .hide_short_help(true)
                .help("Colours: auto follows the terminal, NO_COLOR and CLICOLOR_FORCE"),
        )
        .subcommands([up(), serve(), sentinel(), adapter::command(), migrate(), config()])
        .subcommands(fleet())
        .subcommand(events::command())
        .subcommands([
            login::command(),
            context::command(),
            whoami::command(),
            doctor::command(),
            dev(),
            version(),
        ])
        .subcommands([complete::script_command(), complete::command(), man::command()])
}

/// What works on the resources of a server: looking first, changing after.
fn fleet() -> [Command; 18] {
    [
        get::command(),
        describe::command(),
        tree::command(),
        why::command(),
        timeline::command(),
        top::command(),
        statuses::command(),
        wait::command(),
        create::command(),
        apply::command(),
        diff::command(),
        patch::command(),
        edit::command(),
        label::command(),
        delete::command(),
        force_delete::command(),
        report::command(),
        api::command(),
    ]
}

/// What `--color` asked for.
pub(crate) fn colours(matches: &ArgMatches) -> Colours {
    match matches.get_one::<String>("color").map(String::as_str) {
        Some("always") => Colours::Always,
        Some("never") => Colours::Never,
        _ => Colours::Auto,
    }
}

fn up() -> Command {
    Command::new("up")
        .about("Run everything in one process on an embedded database")
        .long_about(
            "Run everything in one process on an embedded SQLite database: nothing else to install or to \
             configure.\n\nWithout --auth nobody is asked who they are, so it listens on loopback only and refuses any other address.",
        )
        .args([
            Arg::new("port").long("port").value_name("PORT").value_parser(value_parser!(u16)).help("Port of the API [default: 8000]"),
            Arg::new("host").long("host").value_name("HOST").help("Loopback host to listen on [default: localhost]"),
            Arg::new("data").long("data").value_name("DIR").value_parser(value_parser!(PathBuf)).conflicts_with_all(["memory", "database.url"]).help("Directory of the database [default: the current one]"),
            Arg::new("auth").long("auth").action(ArgAction::SetTrue).help("Ask for tokens, and accept those of `hyperfleet dev token`"),
            Arg::new("memory").long("memory").action(ArgAction::SetTrue).conflicts_with("database.url").help("Keep the data in memory; it ends with the process"),
        ])
        .args(up::demo::arguments())
        .args(configuration())
        .after_help("Try it:\n  hyperfleet up --demo\n  hyperfleet up --memory --port 9000")
}

fn serve() -> Command {
    Command::new("serve")
        .about("Run the API as configured")
        .long_about(
            "Run the API as configured: by flags, over environment variables, over the configuration file, over \
             defaults. Many replicas may share one PostgreSQL database.",
        )
        .arg(print_config())
        .args(configuration())
        .after_help("Try it:\n  hyperfleet serve --server-jwt-enabled=false --database-url postgres://me@localhost/hyperfleet")
}

fn sentinel() -> Command {
    let serve = Command::new("serve")
        .about("Run the Sentinel as configured")
        .long_about(
            "Run the Sentinel as configured: it follows the API, decides when a resource needs work, and publishes an \
             event for the adapters. Replicas of one name share the work.",
        )
        .arg(print_config())
        .args(configuration_of(SENTINEL_KEYS, SENTINEL_FILE))
        .after_help("Try it:\n  hyperfleet sentinel serve --clients-hyperfleet-api-base-url http://localhost:8000 --broker-type nats --broker-nats-url nats://localhost:4222");
    let config = Command::new("config")
        .about("Print the Sentinel's effective configuration, secrets masked")
        .args(configuration_of(SENTINEL_KEYS, SENTINEL_FILE));
    Command::new("sentinel")
        .about("Decide when resources need work, and tell their adapters")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([serve, config])
}

fn migrate() -> Command {
    Command::new("migrate")
        .about("Bring the database's schema up to date, and exit")
        .long_about(
            "Bring the database's schema up to date, and exit. Safe to run many times and from many places at \
             once. `serve` does the same at start unless database.migrate is manual.",
        )
        .args(configuration())
}

fn config() -> Command {
    Command::new("config")
        .about("Print the effective configuration, secrets masked")
        .long_about(
            "Print the effective configuration as YAML: every key, with a comment that says where a value came from \
             when it is not the default. Secrets are masked.",
        )
        .args(configuration())
}

fn dev() -> Command {
    let token = Command::new("token")
        .about("Print a token of a local issuer, for trying things out")
        .long_about(
            "Print a token of a local issuer, for trying things out. The first call makes the issuer's key; servers that \
             name its JWKS in server.jwt.configs accept what it signs, and `hyperfleet up --auth` does. Never do that \
             with a server that others can reach.",
        )
        .args([
            Arg::new("identity").value_name("IDENTITY").default_value("dev@localhost").help("Whom the token is for"),
            Arg::new("claim").long("claim").value_name("NAME=VALUE").action(ArgAction::Append).help("A further claim, such as groups=admins; may be given again"),
            Arg::new("audience").long("audience").value_name("TEXT").help("The audience that the server wants"),
            Arg::new("minutes").long("minutes").value_name("NUMBER").value_parser(value_parser!(u64).range(1..=525_600)).help("How long it is valid [default: 60]"),
            Arg::new("dir").long("dir").value_name("DIR").value_parser(value_parser!(PathBuf)).help("Directory of the issuer's key [default: .hyperfleet]"),
        ])
        .after_help("Try it:\n  hyperfleet up --auth\n  curl localhost:8000/api/hyperfleet/v1/whoami -H \"Authorization: Bearer $(hyperfleet dev token ann@example.com 2>/dev/null)\"");
    Command::new("dev")
        .about("Tools for development")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(token)
}

fn version() -> Command {
    Command::new("version").about("Print what this binary was built from").arg(
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FORM")
            .value_parser(["text", "json"])
            .default_value("text")
            .help("Form of the output"),
    )
}

const API_FILE: &str =
    "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/config.yaml or ./configs/config.yaml]";
const SENTINEL_FILE: &str = "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/sentinel.yaml or ./configs/sentinel.yaml]";

/// `--print-config`.
pub(crate) fn print_config() -> Arg {
    Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Print the effective configuration as YAML, secrets masked, and exit")
}

/// `--config` and a flag per key of the API.
fn configuration() -> Vec<Arg> {
    configuration_of(KEYS, API_FILE)
}

/// `--config` and a flag per key.
pub(crate) fn configuration_of(keys: &'static [Key], file: &'static str) -> Vec<Arg> {
    let file =
        Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf)).help(file);
    let keys = keys.iter().map(|key| {
        Arg::new(key.path)
            .long(key.flag())
            .value_name(key.value_name())
            .help(key.meaning())
            .help_heading(
                "Configuration (each also a key of the file and an environment variable HYPERFLEET_…)",
            )
            .hide_short_help(true)
            .allow_hyphen_values(true)
    });
    std::iter::once(file).chain(keys).collect()
}

/// The Sentinel's `--config`, and a flag per key of the broker.
pub(crate) fn broker_configuration() -> Vec<Arg> {
    let mut arguments = configuration_of(BROKER_KEYS, SENTINEL_FILE);
    for argument in &mut arguments {
        *argument = argument.clone().help_heading("Broker (the Sentinel's settings; each flag is also a key of its file and an environment variable HYPERFLEET_…)");
    }
    arguments
}

/// Where the API's configuration of this call comes from.
pub(crate) fn sources(matches: &ArgMatches) -> Sources {
    sources_of(matches, KEYS)
}

/// Where the Sentinel's configuration of this call comes from.
pub(crate) fn sentinel_sources(matches: &ArgMatches) -> Sources {
    let usual_files = SentinelConfig::USUAL_FILES.iter().map(PathBuf::from).collect();
    Sources { usual_files, ..sources_of(matches, SENTINEL_KEYS) }
}

/// Where the configuration of the Sentinel's broker comes from for a call that is no Sentinel.
pub(crate) fn broker_sources(matches: &ArgMatches) -> Sources {
    let usual_files = SentinelConfig::USUAL_FILES.iter().map(PathBuf::from).collect();
    Sources { usual_files, ..sources_of(matches, BROKER_KEYS) }
}

pub(crate) fn sources_of(matches: &ArgMatches, keys: &[Key]) -> Sources {
    let flags = keys
        .iter()
        .filter_map(|key| Some((key.path.to_owned(), matches.get_one::<String>(key.path)?.clone())))
        .collect();
    Sources::of_process(matches.get_one::<PathBuf>("config").cloned(), flags)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
