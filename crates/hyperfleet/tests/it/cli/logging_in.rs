//! Several servers, tokens from files and commands, and that a token goes nowhere but to its own server.

use std::os::unix::fs::PermissionsExt as _;

use hyperfleet_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{BINARY, Cli, DEADLINE, steady, transcript};
use crate::operations::program::{Ended, Running};

/// A server that asks for tokens of the issuer in the command line's own directory.
async fn asking() -> (Cli, Running, String) {
    let cli = Cli::at("").env("HYPERFLEET_SERVER", "");
    let running = cli.start("up --auth --memory --host 127.0.0.1 --port 0 --health-port 0 --metrics-port 0");
    let url = eventually("the welcome", DEADLINE, async || {
        let lines = running.stderr();
        lines.iter().find(|line| *line == "Ctrl-C stops it.")?;
        let api = lines.iter().find_map(|line| line.trim().strip_prefix("API       "))?;
        Some(api.trim_end_matches("/api/hyperfleet/v1/clusters").to_owned())
    })
    .await;
    (cli, running, url)
}

/// What was told, with the places of this run left out.
fn masked_transcript(cli: &Cli, ended: &Ended) -> String {
    transcript(ended).replace(cli.program.directory().to_str().unwrap(), "[dir]")
}

#[tokio::test]
async fn login_stores_server_and_token_source() {
    let (cli, _server, url) = asking().await;
    insta::assert_snapshot!(cli.transcript(&format!("get clusters --server {url}")).await, @"
    --- stderr
    error: Authentication Required (HYPERFLEET-AUT-001, HTTP 401)
      A token is required, and none was sent
      log in with `hyperfleet login`, or pass a token with --token-file or HYPERFLEET_TOKEN
      trace id: [trace]
    --- exit 5
    ");

    let ended = cli.run(&format!("login {url} --name local")).await;
    assert_eq!(ended.code, Some(5), "a login that does not work is not kept: {ended:?}");
    assert_eq!(cli.ok("context list").await, "");

    let command = format!("{BINARY} dev token ann@example.com 2>/dev/null");
    let ended = cli.run(&format!("login {url} --name local --token-command '{command}'")).await;
    insta::assert_snapshot!(masked_transcript(&cli, &ended), @"
    --- stderr
    using local (http://[server]) as ann@example.com; kept in [dir]/contexts.yaml
    ");
    cli.ok("create cluster prod-1").await;
    insta::assert_snapshot!(steady(&cli.ok("whoami").await), @"
    Server:    http://[server]
    Identity:  ann@example.com
    ");
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath=.created_by").await, "ann@example.com\n");
    let file = cli.program.directory().join("contexts.yaml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let token = cli.ok("dev token bob@example.com").await;
    let cli = cli.file("token", &token);
    assert!(cli.ok("whoami --token-file token").await.contains("bob@example.com"));
    assert!(cli.ok(&format!("whoami --server {url} --token-file token")).await.contains("bob@example.com"));
    let cli = cli.env("HYPERFLEET_TOKEN", token.trim());
    assert!(cli.ok(&format!("whoami --server {url}")).await.contains("bob@example.com"));
}

#[tokio::test]
async fn contexts_are_listed_chosen_and_forgotten() {
    let cli = Cli::at("").env("HYPERFLEET_SERVER", "");
    insta::assert_snapshot!(cli.transcript("context").await, @"
    --- stderr
    none yet; see `hyperfleet login --help`
    ");
    cli.ok("login https://one.example.com --name one --token-file /run/one --unchecked").await;
    cli.ok("login https://two.example.com:8443/api/hyperfleet/v1 --token-command 'print secret' --header 'X-Org: blue' --unchecked").await;
    insta::assert_snapshot!(cli.transcript("context list").await, @"
       NAME                  SERVER                                          TOKEN
       one                   https://one.example.com                         file /run/one
    *  two.example.com:8443  https://two.example.com:8443/api/hyperfleet/v1  command
    ");
    assert_eq!(cli.ok("context current").await, "two.example.com:8443\n");
    cli.ok("context use one").await;
    assert_eq!(cli.ok("context current").await, "one\n");
    insta::assert_snapshot!(cli.transcript("context use three").await, @r#"
    --- stderr
    error: no context "three"
      there is: one, two.example.com:8443
    --- exit 2
    "#);
    cli.ok("context remove one").await;
    assert_eq!(cli.run("context current").await.code, Some(1));
    assert_eq!(cli.run("get clusters --context one").await.code, Some(2));
    assert_eq!(cli.run("get clusters --context one --server http://x").await.code, Some(2));
    insta::assert_snapshot!(std::fs::read_to_string(cli.program.directory().join("contexts.yaml")).unwrap(), @r#"
    contexts:
      "two.example.com:8443":
        server: "https://two.example.com:8443/api/hyperfleet/v1"
        token_command:
        - sh
        - "-c"
        - print secret
        headers:
          X-Org: blue
    "#);
}

#[tokio::test]
async fn another_server_does_not_get_the_token_of_a_context() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stranger = format!("http://{}", listener.local_addr().unwrap());
    let cli = Cli::at("").env("HYPERFLEET_SERVER", "").file("token", "hush-hush\n");
    cli.ok("login https://one.example.com --name one --token-file token --header 'X-Org: blue' --unchecked")
        .await;
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 65_536];
        let length = stream.read(&mut request).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    assert_eq!(cli.run(&format!("api GET /clusters --server {stranger}")).await.code, Some(3));
    let request = heard.await.unwrap();
    assert!(request.starts_with("GET /api/hyperfleet/v1/clusters HTTP/1.1"), "{request}");
    assert!(!request.contains("hush") && !request.to_lowercase().contains("x-org"), "{request}");
}
