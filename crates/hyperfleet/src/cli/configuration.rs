//! Every configuration key as a flag of the commands that read the configuration, made from the same table as the
//! documentation.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use hyperfleet_service::settings::{Key, Sources};

const HEADING: &str = "Configuration (each also a key of the file and an environment variable HYPERFLEET_…)";
const BROKER_HEADING: &str = "Broker (the Sentinel's settings; each flag is also a key of its file and an environment variable HYPERFLEET_…)";

/// The keys of a role, and the files that it reads.
pub(crate) trait Role {
    const KEYS: &'static [Key];
    const HEADING: &'static str = HEADING;
    /// Above `--config`.
    const FILE_HEADING: Option<&'static str> = None;
    /// Help of `--config`.
    const FILE: &'static str;
    /// The short form of `--config`.
    const SHORT: Option<char> = None;
    /// Files to look for when `--config` names none; empty for those of the API.
    const USUAL_FILES: &'static [&'static str];
}

#[derive(Debug)]
pub(crate) enum Api {}

impl Role for Api {
    const KEYS: &'static [Key] = hyperfleet_api::config::KEYS;
    const FILE: &'static str = "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/config.yaml or ./configs/config.yaml]";
    const USUAL_FILES: &'static [&'static str] = &[];
}

#[derive(Debug)]
pub(crate) enum Sentinel {}

impl Role for Sentinel {
    const KEYS: &'static [Key] = hyperfleet_sentinel::config::KEYS;
    const FILE: &'static str = "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/sentinel.yaml or ./configs/sentinel.yaml]";
    const USUAL_FILES: &'static [&'static str] = &hyperfleet_sentinel::config::Config::USUAL_FILES;
}

/// The broker of the Sentinel, for commands that are no Sentinel.
#[derive(Debug)]
pub(crate) enum Broker {}

impl Role for Broker {
    const KEYS: &'static [Key] = hyperfleet_events::config::KEYS;
    const HEADING: &'static str = BROKER_HEADING;
    const FILE_HEADING: Option<&'static str> = Some(BROKER_HEADING);
    const FILE: &'static str = Sentinel::FILE;
    const USUAL_FILES: &'static [&'static str] = Sentinel::USUAL_FILES;
}

#[derive(Debug)]
pub(crate) enum Adapter {}

impl Role for Adapter {
    const KEYS: &'static [Key] = hyperfleet_adapter::KEYS;
    const FILE: &'static str = "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/adapter.yaml or ./configs/adapter.yaml]";
    const SHORT: Option<char> = Some('c');
    const USUAL_FILES: &'static [&'static str] = &hyperfleet_adapter::Config::USUAL_FILES;
}

/// `--config` and a flag per key.
#[derive(Debug)]
pub(crate) struct Configuration<R> {
    file: Option<PathBuf>,
    flags: Vec<(String, String)>,
    role: PhantomData<R>,
}

impl<R: Role> Configuration<R> {
    /// Where the configuration of this call comes from.
    pub(crate) fn sources(&self) -> Sources {
        let mut sources = Sources::of_process(self.file.clone(), self.flags.clone());
        if !R::USUAL_FILES.is_empty() {
            sources.usual_files = R::USUAL_FILES.iter().map(PathBuf::from).collect();
        }
        sources
    }
}

impl<R: Role> Args for Configuration<R> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(R::FILE)
            .help_heading(R::FILE_HEADING);
        let file = match R::SHORT {
            Some(short) => file.short(short),
            None => file,
        };
        let flags = R::KEYS.iter().map(|key| {
            Arg::new(key.path)
                .long(key.flag())
                .value_name(key.value_name())
                .help(key.meaning())
                .help_heading(R::HEADING)
                .hide_short_help(true)
                .allow_hyphen_values(true)
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: Role> FromArgMatches for Configuration<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flag = |key: &Key| Some((key.path.to_owned(), matches.get_one::<String>(key.path)?.clone()));
        Ok(Self {
            file: matches.get_one("config").cloned(),
            flags: R::KEYS.iter().filter_map(flag).collect(),
            role: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
