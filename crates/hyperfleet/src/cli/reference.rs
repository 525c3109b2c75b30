//! The reference in `docs/cli.md`, made from the command line itself, so that the page cannot say anything else.
//! `UPDATE_DOCS=1 cargo test -p hyperfleet --bin hyperfleet reference` writes it anew.

use std::path::Path;

use clap::{Arg, Command};

const MARKER: &str =
    "<!-- From here on made by `UPDATE_DOCS=1 cargo test -p hyperfleet --bin hyperfleet reference`. -->\n";

#[test]
fn the_page_holds_every_command_and_flag() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, written) = page.split_once(MARKER).expect("the page has its marker");
    let mut whole = super::command();
    whole.build();
    let mut made = String::from("\n## Reference\n");
    for command in visible(&whole) {
        describe(command, &mut made);
    }
    if hyperfleet_service::settings::environment().contains_key("UPDATE_DOCS") {
        std::fs::write(&path, format!("{head}{MARKER}{made}")).unwrap();
        return;
    }
    assert!(written == made, "docs/cli.md is out of date: UPDATE_DOCS=1 writes it anew");
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn describe(command: &Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    out.push_str(&format!("\n### {name}\n\n"));
    let about = command.get_long_about().or_else(|| command.get_about());
    out.push_str(&format!("{}.\n", about.map(ToString::to_string).unwrap_or_default().trim_end_matches('.')));
    let rows: Vec<String> = command.get_arguments().filter(|arg| is_shown(arg)).map(row).collect();
    if !rows.is_empty() {
        out.push_str("\n| Argument | Meaning |\n|---|---|\n");
        out.extend(rows);
    }
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        out.push_str(&format!("\n```text\n{}\n```\n", text.trim_end()));
    }
    for below in visible(command) {
        describe(below, out);
    }
}

/// What many commands share is described once, above.
fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set()
        && arg.get_help_heading().is_none()
        && !matches!(arg.get_id().as_str(), "help" | "version" | "color")
}

fn row(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let shorts = arg.get_short_and_visible_aliases().unwrap_or_default();
    let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
    let shorts = shorts.into_iter().map(|short| format!("-{short}"));
    let longs = longs.into_iter().map(|long| format!("--{long}"));
    let mut shown = shorts.chain(longs).collect::<Vec<_>>().join(", ");
    if takes_value {
        let names = arg.get_value_names().expect("every value has a name");
        shown = format!("{shown} {}", names.join(" ")).trim_start().to_owned();
    }
    let mut meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<_> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_value && !possible.is_empty() {
        meaning.push_str(&format!(" ({})", possible.join(", ")));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() && !meaning.contains('[') {
        meaning.push_str(&format!(" [default: {}]", defaults.join(", ")));
    }
    format!("| `{}` | {} |\n", shown.replace('|', "\\|"), meaning.replace('|', "\\|"))
}
