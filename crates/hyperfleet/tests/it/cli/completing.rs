//! Completion with live names, and the manual.

use super::{BINARY, Cli};
use crate::operations::program::output;
use crate::support::{App, CATALOG, any_store};

async fn kinds_and_names_come_from_the_server(app: &App) {
    let cli = Cli::of(app);
    for name in ["prod-1", "prod-2", "dev-1"] {
        cli.ok(&format!("create cluster {name}")).await;
    }
    cli.ok("create nodepool prod-2/workers").await;
    for (words, found) in [
        ("get clu", "clusters\tCluster\ncluster\tCluster\n"),
        ("get cluster pr", "prod-1\nprod-2\n"),
        ("describe cluster/pr", "cluster/prod-1\ncluster/prod-2\n"),
        ("tree nodepool/prod-2/", "nodepool/prod-2/workers\n"),
        ("get nodepools --in clusters/d", "clusters/dev-1\n"),
        ("get rockets ''", ""),
        ("wait cluster prod-1 --for del", "delete\n"),
        ("get clusters -o w", "wide\n"),
        ("desc", "describe\tShow everything about a resource: conditions, reports, blockers, timeline\n"),
        ("get cluster \"x' or name!='\"", ""),
    ] {
        assert_eq!(cli.ok(&format!("__complete -- {words}")).await, found, "{words}");
    }
    let flags = cli.ok("__complete -- get --sh").await;
    assert_eq!(flags, "--show-deleted\tInclude finalizing resources\n");
}

async fn bash_completes_with_the_script(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let script = cli.ok("completion bash").await;
    let cli = cli.file("completion.bash", &script);
    let directory = std::path::Path::new(BINARY).parent().unwrap().display().to_string();
    let typed = "hyperfleet get cluster pr";
    let session = format!(
        "PATH='{directory}':$PATH; source completion.bash; COMP_LINE='{typed}'; COMP_POINT=${{#COMP_LINE}}; \
         COMP_WORDS=({typed}); COMP_CWORD=3; _hyperfleet; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let ended = output(cli.program.command("bash", &["-c", &session])).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "prod-1\n"), "{ended:?}");
}

#[tokio::test]
async fn completion_without_a_server_prints_nothing() {
    let cli = Cli::at("http://127.0.0.1:1");
    for words in ["get clu", "get cluster pr", "describe cluster/x"] {
        let ended = cli.run(&format!("__complete -- {words}")).await;
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""), "{words}");
    }
    assert!(cli.ok("__complete -- ge").await.starts_with("get\t"), "commands need no server");
}

#[tokio::test]
async fn the_manual_has_a_page_for_every_command() {
    let cli = Cli::at("http://127.0.0.1:1");
    let page = cli.ok("man get").await;
    assert!(page.contains(".TH hyperfleet-get 1") && page.contains("show\\-deleted"), "{page}");
    assert_eq!(cli.run("man fly").await.code, Some(2));
    let ended = cli.run("man --dir pages").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    let mut pages: Vec<String> = std::fs::read_dir(cli.program.directory().join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for name in [
        "hyperfleet.1",
        "hyperfleet-apply.1",
        "hyperfleet-context-use.1",
        "hyperfleet-force-delete.1",
        "hyperfleet-serve.1",
    ] {
        assert!(pages.iter().any(|page| page == name), "{name}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("__complete")), "{pages:?}");
}

any_store!(config = CATALOG; kinds_and_names_come_from_the_server, bash_completes_with_the_script);
