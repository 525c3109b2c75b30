//! The command line: every command by its name. The flags of a command are beside its code, in `commands/`.

pub(crate) mod configuration;
#[cfg(test)]
mod reference;

use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

use crate::commands::{
    Failure, adapter, api, apply, complete, config, context, create, delete, describe, dev, diff, doctor,
    edit, events, force_delete, get, label, login, man, migrate, patch, report, sentinel, serve, statuses,
    timeline, top, tree, up, verify, version, wait, whoami, why,
};
use crate::output::Colours;
use crate::remote::Remote;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const FIRST_STEPS: &str = "First steps:
  hyperfleet up --demo              everything in one process, with a fleet that changes
  hyperfleet up                     the same without a fleet, data in ./hyperfleet.db
  hyperfleet create cluster my-first --label environment=dev
  hyperfleet get clusters           then: describe, tree, why, apply -f, delete
  open http://localhost:8000/api/hyperfleet/v1/openapi.html

In production:
  hyperfleet migrate --database-url postgres://…    bring the schema up to date
  hyperfleet serve --config /etc/hyperfleet/config.yaml
  hyperfleet sentinel serve --config /etc/hyperfleet/sentinel.yaml
  hyperfleet config                 what is configured, and where each value came from";

/// Keeps the desired state of fleets, and says whether the world matches it
#[derive(Debug, Parser)]
#[command(name = "hyperfleet", version, styles = STYLES, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    /// Colours: auto follows the terminal, NO_COLOR and CLICOLOR_FORCE
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        global = true,
        hide_short_help = true
    )]
    pub(crate) color: Colours,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Serve(serve::Serve),
    /// Decide when resources need work, and tell their adapters
    #[command(subcommand)]
    Sentinel(sentinel::Command),
    /// Do the work of a task file for resources, or pretend to
    #[command(subcommand)]
    Adapter(adapter::Command),
    Migrate(migrate::Migrate),
    Verify(verify::Verify),
    Config(config::Config),
    Get(Remote<get::Get>),
    Describe(Remote<describe::Describe>),
    Tree(Remote<tree::Tree>),
    Why(Remote<why::Why>),
    Timeline(Remote<timeline::Timeline>),
    Top(Remote<top::Top>),
    Statuses(Remote<statuses::Statuses>),
    Wait(Remote<wait::Wait>),
    Create(Remote<create::Create>),
    Apply(Remote<apply::Apply>),
    Diff(Remote<diff::Diff>),
    Patch(Remote<patch::Patch>),
    Edit(Remote<edit::Edit>),
    Label(Remote<label::Label>),
    Delete(Remote<delete::Delete>),
    ForceDelete(Remote<force_delete::ForceDelete>),
    Report(Remote<report::Report>),
    Api(Remote<api::Api>),
    /// Look at events, publish one, and deal with those that were given up
    #[command(subcommand)]
    Events(events::Command),
    Login(login::Login),
    Context(context::Context),
    Whoami(Remote<whoami::Whoami>),
    Doctor(Remote<doctor::Doctor>),
    /// Tools for development
    #[command(subcommand)]
    Dev(dev::Command),
    Version(version::Version),
    Completion(complete::Completion),
    #[command(name = "__complete", hide = true)]
    Complete(complete::Complete),
    Man(man::Man),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Up(up) => up.run(),
            Self::Serve(serve) => serve.run(),
            Self::Sentinel(sentinel) => sentinel.run(),
            Self::Adapter(adapter) => adapter.run(),
            Self::Migrate(migrate) => migrate.run(),
            Self::Verify(verify) => verify.run(),
            Self::Config(config) => config.run(),
            Self::Get(remote) => remote.run(get::Get::run),
            Self::Describe(remote) => remote.run(describe::Describe::run),
            Self::Tree(remote) => remote.run(tree::Tree::run),
            Self::Why(remote) => remote.run(why::Why::run),
            Self::Timeline(remote) => remote.run(timeline::Timeline::run),
            Self::Top(remote) => remote.run(top::Top::run),
            Self::Statuses(remote) => remote.run(statuses::Statuses::run),
            Self::Wait(remote) => remote.run(wait::Wait::run),
            Self::Create(remote) => remote.run(create::Create::run),
            Self::Apply(remote) => remote.run(apply::Apply::run),
            Self::Diff(remote) => remote.run(diff::Diff::run),
            Self::Patch(remote) => remote.run(patch::Patch::run),
            Self::Edit(remote) => remote.run(edit::Edit::run),
            Self::Label(remote) => remote.run(label::Label::run),
            Self::Delete(remote) => remote.run(delete::Delete::run),
            Self::ForceDelete(remote) => remote.run(force_delete::ForceDelete::run),
            Self::Report(remote) => remote.run(report::Report::run),
            Self::Api(remote) => remote.run(api::Api::run),
            Self::Events(events) => events.run(),
            Self::Login(login) => login.run(),
            Self::Context(context) => context.run(),
            Self::Whoami(remote) => remote.run(whoami::Whoami::run),
            Self::Doctor(remote) => doctor::run(&remote),
            Self::Dev(dev) => dev.run(),
            Self::Version(version) => version.run(),
            Self::Completion(completion) => completion.run(),
            Self::Complete(complete) => complete.run(),
            Self::Man(man) => man.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
