//! More requests than the server can answer: lists are refused first and reports last, and every accepted request is
//! done.

use std::future::IntoFuture as _;

use hyperfleet_testkit::{Answer, Call, Client, Launch, Server, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::installation::Installation;
use super::{BINARY, CLUSTERS, DEADLINE, cluster, create_cluster, id};
use crate::support::{both_stores, validated};

both_stores!(
    start = Installation::migrated;
    lists_are_shed_first_and_reports_last_and_no_acknowledged_write_is_lost,
    answers_under_overload_are_true,
    an_unread_answer_holds_no_permit,
    watches_and_waits_hold_no_permit,
    an_incomplete_body_holds_no_permit,
);

/// A server that answers so many at a time.
async fn narrow(installation: &Installation, requests: usize) -> Server {
    let limit = requests.to_string();
    let launch = installation.serve().env("HYPERFLEET_SERVER_LIMITS_REQUESTS_IN_FLIGHT", &limit);
    // Whatever is held up here is held up by the test.
    let launch = launch.env("HYPERFLEET_DATABASE_POOL_REQUEST_TIMEOUT", "5m");
    launch.discard_logs().start().await.unwrap()
}

fn sent(call: Call) -> JoinHandle<Answer> {
    tokio::spawn(call.into_future())
}

async fn metrics(server: &Server) -> String {
    let text = server.metrics().get("/metrics").await.expect_status(200);
    String::from_utf8(text.body.to_vec()).unwrap()
}

fn value(metrics: &str, series: &str) -> Option<u64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}

/// The value of a metric for each priority: list, resource, report.
async fn by_priority(server: &Server, metric: &str) -> [u64; 3] {
    let text = metrics(server).await;
    ["list", "resource", "report"].map(|priority| {
        let value = value(&text, &format!("{metric}{{priority=\"{priority}\"}}"));
        value.expect("all priorities are there from the start")
    })
}

async fn in_flight(server: &Server, expected: [u64; 3]) {
    eventually("requests in flight", DEADLINE, async || {
        (by_priority(server, "hyperfleet_api_requests_in_flight").await == expected).then_some(())
    })
    .await;
}

#[track_caller]
fn assert_shed(answer: &Answer) {
    assert_eq!((answer.status, answer.problem_code().as_str()), (503, "HYPERFLEET-SVC-001"), "{answer}");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer}");
}

/// These routes need no permit.
async fn tells_of_itself(server: &Server) {
    for path in ["/api/hyperfleet/health", "/api/hyperfleet/metadata", "/api/hyperfleet/v1/openapi"] {
        server.api().get(path).await.expect_status(200);
    }
    server.health().get("/healthz").await.expect_status(200);
    server.health().get("/readyz").await.expect_status(200);
}

async fn lists_are_shed_first_and_reports_last_and_no_acknowledged_write_is_lost(
    installation: &Installation,
) {
    let server = narrow(installation, 20).await;
    let api = server.api();
    let mut reported = Vec::new();
    for number in 0..4 {
        let made = id(&create_cluster(&api, &format!("reported-{number}")).await);
        reported.push(format!("{CLUSTERS}/{made}"));
    }
    let create = |number: usize| api.post(CLUSTERS).json(&cluster(&format!("late-{number}")));
    let held = installation.hold_everything().await;

    let mut creates: Vec<_> = (0..10).map(|number| sent(create(number))).collect();
    in_flight(&server, [0, 10, 0]).await;
    assert_shed(&api.get(CLUSTERS).await);
    assert_shed(&api.get(&format!("{}/statuses", reported[0])).await);

    creates.extend((10..17).map(|number| sent(create(number))));
    in_flight(&server, [0, 17, 0]).await;
    assert_shed(&create(17).await);
    assert_shed(&api.get(&reported[0]).await);
    tells_of_itself(&server).await;

    let put = |cluster: &str| api.put(&format!("{cluster}/statuses")).json(&validated());
    let reports: Vec<_> = reported[..3].iter().map(|cluster| sent(put(cluster))).collect();
    in_flight(&server, [0, 17, 3]).await;
    assert_shed(&put(&reported[3]).await);
    tells_of_itself(&server).await;

    drop(held);
    let mut acknowledged = Vec::new();
    for create in creates {
        acknowledged.push(id(&create.await.unwrap().expect_status(201)));
    }
    for report in reports {
        report.await.unwrap().expect_status(201);
    }
    in_flight(&server, [0, 0, 0]).await;
    for id in acknowledged {
        api.get(&format!("{CLUSTERS}/{id}")).await.expect_status(200);
    }
    for (cluster, reports) in reported.iter().zip([1, 1, 1, 0]) {
        let list = api.get(&format!("{cluster}/statuses")).await.expect_status(200).json();
        assert_eq!(list["total"], reports, "{list}");
    }
    let list = api.get(CLUSTERS).await.expect_status(200).json();
    assert_eq!(list["total"], 4 + 17, "what was refused was not done");
    create(17).await.expect_status(201);
    put(&reported[3]).await.expect_status(201);
    assert_eq!(by_priority(&server, "hyperfleet_api_requests_shed_total").await, [2, 2, 1]);
}

/// What one caller of a storm was told.
#[derive(Default)]
struct StormResult {
    made: Vec<String>,
    refused: Vec<String>,
    shed: [u64; 3],
}

async fn storm(api: Client, caller: usize, reported: String) -> StormResult {
    let mut told = StormResult::default();
    for turn in 0..20 {
        let name = format!("c{caller}-{turn}");
        let calls = [
            (0, 200, api.get(CLUSTERS)),
            (1, 200, api.get(&reported)),
            (1, 201, api.post(CLUSTERS).json(&cluster(&name))),
            (2, 201, api.put(&format!("{reported}/statuses")).json(&validated())),
        ];
        for (priority, expected, call) in calls {
            let answer = call.await;
            let creates = expected == 201 && priority == 1;
            if answer.status == expected {
                told.made.extend(creates.then(|| name.clone()));
            } else {
                assert_shed(&answer);
                told.shed[priority] += 1;
                told.refused.extend(creates.then(|| name.clone()));
            }
        }
    }
    told
}

async fn answers_under_overload_are_true(installation: &Installation) {
    let server = narrow(installation, 3).await;
    let reported = format!("{CLUSTERS}/{}", id(&create_cluster(&server.api(), "reported").await));
    // Until every priority was shed, so that the storm is one on any machine.
    let mut all = StormResult::default();
    for first in (0..).step_by(24) {
        let callers: Vec<_> = (first..first + 24)
            .map(|caller| tokio::spawn(storm(server.api(), caller, reported.clone())))
            .collect();
        tells_of_itself(&server).await;
        for caller in callers {
            let told = caller.await.unwrap();
            all.made.extend(told.made);
            all.refused.extend(told.refused);
            all.shed = std::array::from_fn(|priority| all.shed[priority] + told.shed[priority]);
        }
        if all.shed.iter().all(|shed| *shed > 0) {
            break;
        }
        assert!(first < 24 * 20, "no storm: {:?}", all.shed);
    }
    in_flight(&server, [0, 0, 0]).await;
    assert_eq!(by_priority(&server, "hyperfleet_api_requests_shed_total").await, all.shed);
    let names = installation.rows("select name from resources order by name").await.concat();
    let mut expected = [all.made, vec!["reported".to_owned()]].concat();
    expected.sort();
    assert_eq!(names, expected);
    assert!(all.refused.iter().all(|name| !names.contains(name)));
    create_cluster(&server.api(), "after").await;
    server.api().get(CLUSTERS).await.expect_status(200);
}

async fn an_unread_answer_holds_no_permit(installation: &Installation) {
    // More than sockets hold, so that the answer is on its way until the client reads it.
    const LARGE: usize = 1_000_000;
    const MANY: usize = 15;
    let server = narrow(installation, 2).await;
    for number in 0..MANY {
        let body = json!({"kind": "Cluster", "name": format!("large-{number}"), "spec": {"text": "x".repeat(LARGE)}});
        server.api().post(CLUSTERS).json(&body).await.expect_status(201);
    }
    let mut unread = TcpStream::connect(server.api().authority()).await.unwrap();
    let request = format!("GET {CLUSTERS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    unread.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 15];
    unread.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    for _ in 0..2 {
        server.api().get(&format!("{CLUSTERS}?pageSize=1")).await.expect_status(200);
    }
    let mut rest = Vec::new();
    unread.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > LARGE * MANY);
}

async fn watches_and_waits_hold_no_permit(installation: &Installation) {
    const READS: &str = "hyperfleet_db_query_duration_seconds_count{operation=\"get\"}";
    let server = narrow(installation, 2).await;
    let api = server.api();
    let one = format!("{CLUSTERS}/{}", id(&create_cluster(&api, "awaited").await));
    let mut waiting = Vec::new();
    for waiters in 1..=3 {
        waiting.push(sent(api.get(&format!("{one}?waitFor=Reconciled=True&timeout=5m"))));
        eventually("the first look", DEADLINE, async || {
            value(&metrics(&server).await, READS).filter(|reads| *reads >= waiters)
        })
        .await;
        in_flight(&server, [0, 0, 0]).await;
    }
    let mut watching = TcpStream::connect(api.authority()).await.unwrap();
    let request = format!("GET {CLUSTERS}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n");
    watching.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 15];
    watching.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    in_flight(&server, [0, 0, 0]).await;

    api.get(CLUSTERS).await.expect_status(200);
    api.put(&format!("{one}/statuses")).json(&validated()).await.expect_status(201);
    for waiting in waiting {
        let answer = waiting.await.unwrap().expect_status(200);
        assert_eq!(answer.header("x-hyperfleet-wait"), None, "{answer}");
    }
}

/// A request of which the server has the head and waits for the body.
async fn half_sent(api: &Client, method: &str, path: &str, body: &Value) -> (TcpStream, String) {
    let body = body.to_string();
    let mut connection = TcpStream::connect(api.authority()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    connection.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    (connection, body)
}

/// Sends the rest; the answer's status.
async fn complete((mut connection, body): (TcpStream, String)) -> String {
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer["HTTP/1.1 ".len()..].split(' ').next().unwrap().to_owned()
}

async fn an_incomplete_body_holds_no_permit(installation: &Installation) {
    let server = narrow(installation, 2).await;
    let api = server.api();
    let one = format!("{CLUSTERS}/{}", id(&create_cluster(&api, "patched").await));
    let check = "/api/hyperfleet/v1/authz/check";
    let mut halves = Vec::new();
    for (method, path, body) in [
        ("POST", CLUSTERS, cluster("slow")),
        ("PATCH", &one, json!({"spec": {"n": 1}})),
        ("PUT", &format!("{one}/statuses"), validated()),
        ("POST", check, json!({"verb": "read", "kind": "Cluster"})),
    ] {
        halves.push(half_sent(&api, method, path, &body).await);
        in_flight(&server, [0, 0, 0]).await;
    }
    api.get(CLUSTERS).await.expect_status(200);
    let mut answers = Vec::new();
    for half in halves {
        answers.push(complete(half).await);
    }
    assert_eq!(answers, ["201", "200", "201", "200"]);

    // There must be room again when the body is there.
    let half = half_sent(&api, "POST", CLUSTERS, &cluster("late")).await;
    let held = installation.hold_everything().await;
    let create = sent(api.post(CLUSTERS).json(&cluster("first")));
    in_flight(&server, [0, 1, 0]).await;
    assert_eq!(complete(half).await, "503");
    drop(held);
    create.await.unwrap().expect_status(201);
    in_flight(&server, [0, 0, 0]).await;
    assert_eq!(api.get(CLUSTERS).await.expect_status(200).json()["total"], 3);
}

#[test]
fn a_server_raises_its_limit_of_file_descriptors() {
    crate::support::run(async {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/operations/few_descriptors.sh");
        let server = Launch::new(script).env("BINARY", BINARY).start().await.unwrap();
        let mut open = Vec::new();
        for _ in 0..200 {
            let mut socket = TcpStream::connect(server.api().authority()).await.unwrap();
            socket.write_all(b"GET /api/hyperfleet HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            assert_ne!(socket.read(&mut [0; 16]).await.unwrap(), 0);
            open.push(socket);
        }
    });
}
