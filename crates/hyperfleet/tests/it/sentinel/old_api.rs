//! An API without watches, leases and a list of its kinds. It is a server with the Go contract behind a small proxy
//! that refuses these.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn without_watch_and_leases_the_sentinel_polls() {
    let app = App::sqlite("compatibility: {contract: go-0.2}").await;
    let broker = nats(Nats::shared().url());
    let mut listener = EventListener::on(&broker).await;
    let proxy = proxy(app.api().authority().to_owned()).await;
    let program = sentinel(&app, &broker, &listener)
        .env("HYPERFLEET_API_BASE_URL", &proxy)
        .env("HYPERFLEET_RESOURCE_TYPE", "clusters")
        .env("HYPERFLEET_POLL_INTERVAL", "1s");
    let running = start(&program).await;
    running.logged("the API has no leases; this replica works alone").await;
    assert_eq!(metric(&running, "hyperfleet_sentinel_uncovered_ranges").await, 0.0);

    let body = serde_json::json!({"kind": "Cluster", "name": unique("cluster"), "spec": {}});
    let cluster = app.api().post("/api/hyperfleet/v1/clusters").json(&body).send().await.unwrap();
    let cluster = cluster.expect_status(201).json();
    listener.event_about(&cluster, 1).await;
    let path = cluster["href"].as_str().unwrap();
    let spec = serde_json::json!({"spec": {"a": 1}});
    app.api().patch(path).json(&spec).send().await.unwrap().expect_status(200);
    listener.event_about(&cluster, 2).await;
    app.api().delete(path).send().await.unwrap();
    listener.event_about(&cluster, 3).await;
}

/// Passes requests on, one a connection, to a server that is older than it is. Returns its address.
async fn proxy(server: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move { pass(client, &server).await });
        }
    });
    address
}

async fn pass(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let end = loop {
        if client.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if let Some(end) = request.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
    };
    let body = request.split_off(end);
    let head = String::from_utf8_lossy(&request).replace("/leases", "/nothing").replace("watch=true", "");
    let mut server = TcpStream::connect(server).await?;
    server.write_all(format!("{head}\r\nConnection: close").as_bytes()).await?;
    server.write_all(&body).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}
