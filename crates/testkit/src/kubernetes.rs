//! A control plane of Kubernetes: etcd, the API server, the controllers that own objects, and kwok, which plays the
//! kubelets. Pods are put on one node by an admission policy instead of a scheduler.
//!
//! `scripts/kubernetes` builds the programs. Without them and without `CI=true`, a line says so and the tests that need
//! them are left out.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::eventually;
use crate::process::{Process, free_ports};

const VERSIONS: &str = include_str!("../../../scripts/kubernetes.versions");
const STAGES: &str = include_str!("kubernetes/stages.yaml");
/// Controllers that make, complete and collect what tests create.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,job-controller,\
    ttl-after-finished-controller,deployment-controller,replicaset-controller,serviceaccount-controller";
const ADMIN: &str = "admin.kubeconfig";
const DEADLINE: Duration = Duration::from_secs(180);

/// A running control plane; it goes with this process.
#[derive(Debug)]
pub struct Kubernetes {
    /// They are dropped in this order: without its storage, an API server hangs when it stops.
    _kubelets: Process,
    _controllers: Process,
    server: Process,
    storage: Process,
    /// Keys, certificates and kubeconfig files; it goes with the API server.
    files: PathBuf,
    port: u16,
    storage_port: u16,
}

impl Kubernetes {
    /// The control plane that all tests of this process share, started at the first call. `None` when it is not built.
    ///
    /// # Panics
    /// When it does not start, or with `CI=true` when it is not built.
    pub async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Result<Kubernetes>> = OnceCell::const_new();
        if !is_built() {
            return None;
        }
        Some(SHARED.get_or_init(|| Self::start(&[])).await.as_ref().expect("Kubernetes must start"))
    }

    /// A control plane of its own, with more arguments for its API server. `None` when it is not built.
    ///
    /// # Panics
    /// As [`Self::shared`].
    pub async fn own(arguments: &'static [&'static str]) -> Option<Self> {
        if !is_built() {
            return None;
        }
        Some(Self::start(arguments).await.expect("Kubernetes must start"))
    }

    async fn start(arguments: &'static [&'static str]) -> Result<Self> {
        let kubernetes = tokio::task::spawn_blocking(|| Self::launch(arguments)).await??;
        kubernetes.furnish().await?;
        Ok(kubernetes)
    }

    /// A kubeconfig file of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.files.join(ADMIN)
    }

    /// A kubeconfig file of a user who may do nothing until a role is bound.
    pub fn kubeconfig_of(&self, user: &str) -> Result<PathBuf> {
        let path = self.files.join(format!("{user}.kubeconfig"));
        fs::write(&path, kubeconfig(&self.files, self.port, &format!(", as: {user}")))?;
        Ok(path)
    }

    /// Kills the API server as a crash would.
    pub fn kill(&self) {
        self.server.kill();
    }

    /// Starts the API server again on the same port.
    pub async fn start_again(&self) -> Result<()> {
        tokio::task::block_in_place(|| self.server.start(|| is_ready(&self.kubeconfig())))
    }

    /// Kills etcd; the API server stays, and cannot answer.
    pub fn kill_storage(&self) {
        self.storage.kill();
    }

    /// Starts etcd again on the same data.
    pub async fn start_storage_again(&self) -> Result<()> {
        tokio::task::block_in_place(|| self.storage.start(|| listens(self.storage_port)))
    }

    /// Sends a request as the administrator, with kubectl's name for what it changes. A body of `PATCH` is a merge patch.
    pub async fn call(&self, method: http::Method, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        call(&self.kubeconfig(), method, path, body).await
    }

    /// Creates an object in the collection at `path`.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (status, created) = self.call(http::Method::POST, path, Some(object)).await.expect("an answer");
        assert_eq!(status, 201, "{path}: {created}");
        created
    }

    /// Changes an object by a merge patch.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn change(&self, path: &str, patch: &Value) -> Value {
        let (status, changed) = self.call(http::Method::PATCH, path, Some(patch)).await.expect("an answer");
        assert_eq!(status, 200, "{path}: {changed}");
        changed
    }

    /// An object, or `None` when it is not there.
    ///
    /// # Panics
    /// When the server gives another answer.
    pub async fn read(&self, path: &str) -> Option<Value> {
        let (status, object) = self.call(http::Method::GET, path, None).await.expect("an answer");
        assert!(status == 200 || status == 404, "{path}: {status} {object}");
        (status == 200).then_some(object)
    }

    /// Asks for the deletion of an object.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn delete(&self, path: &str) {
        let (status, answer) = self.call(http::Method::DELETE, path, None).await.expect("an answer");
        assert!(status == 200 || status == 202, "{path}: {status} {answer}");
    }

    fn launch(arguments: &[&str]) -> Result<Self> {
        let [port, storage_port, peer_port] = free_ports()?;
        let storage_program = program("etcd")?;
        let storage = Process::prepare("hf-etcd-", "", |directory| {
            let (clients, peers) = (url(storage_port), url(peer_port));
            let mut command = Command::new(storage_program);
            command.arg("--unsafe-no-fsync").arg("--data-dir").arg(directory.join("data"));
            command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            command.args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"]);
            Ok(command)
        })?;
        storage.start(|| listens(storage_port))?;

        let server_program = program("kube-apiserver")?;
        let mut files = PathBuf::new();
        let server = Process::prepare("hf-apiserver-", "", |directory| {
            directory.clone_into(&mut files);
            let (key, public_key) = (files.join("service-account.key"), files.join("service-account.pub"));
            let pair = rcgen::KeyPair::generate()?;
            fs::write(&key, pair.serialize_pem())?;
            fs::write(&public_key, pair.public_key_pem())?;
            fs::write(files.join("tokens"), "admin,admin,admin,system:masters\n")?;
            fs::write(files.join("stages.yaml"), STAGES)?;
            fs::write(files.join(ADMIN), kubeconfig(&files, port, ""))?;
            let mut command = Command::new(server_program);
            command.args(["--etcd-servers", &url(storage_port), "--service-cluster-ip-range", "10.0.0.0/24"]);
            command.args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()]);
            command.args(["--endpoint-reconciler-type", "none", "--authorization-mode", "RBAC"]);
            command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
            command
                .arg("--service-account-key-file")
                .arg(&public_key)
                .arg("--service-account-signing-key-file")
                .arg(&key);
            command.args(arguments).arg("--token-auth-file").arg(files.join("tokens"));
            command.arg("--cert-dir").arg(files.join("certificates"));
            Ok(command)
        })?;
        server.start(|| is_ready(&files.join(ADMIN)))?;

        let manager_program = program("kube-controller-manager")?;
        let controllers = Process::prepare("hf-controllers-", "", |_| {
            let mut command = Command::new(manager_program);
            command.args(["--controllers", CONTROLLERS, "--leader-elect=false", "--secure-port=0"]);
            command.arg("--kubeconfig").arg(files.join(ADMIN));
            // They end when they lose the server.
            Ok(respawning(&command))
        })?;
        controllers.start(|| true)?;

        let kwok = program("kwok")?;
        let kubelets = Process::prepare("hf-kwok-", "", |directory| {
            let mut command = Command::new(kwok);
            command.env("HOME", directory).arg("--manage-all-nodes");
            command.arg("--config").arg(files.join("stages.yaml"));
            command.arg("--kubeconfig").arg(files.join(ADMIN));
            Ok(respawning(&command))
        })?;
        kubelets.start(|| true)?;
        Ok(Self {
            _kubelets: kubelets,
            _controllers: controllers,
            server,
            storage,
            files,
            port,
            storage_port,
        })
    }

    /// A node, and the policy that puts every pod on it.
    async fn furnish(&self) -> Result<()> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
        let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "schedule"},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
                ]},
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
                    "expression": "Object{spec: Object.spec{nodeName: 'node'}}",
                }}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "schedule"}, "spec": {"policyName": "schedule"},
        });
        self.create("/api/v1/nodes", &node).await;
        self.create(policies, &policy).await;
        self.create("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", &binding).await;
        // The API server learns of its policies by a watch of its own.
        let pods = "/api/v1/namespaces/default/pods?dryRun=All";
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]},
        });
        eventually("pods get a node", DEADLINE, async || {
            let (_, created) = self.call(http::Method::POST, pods, Some(&pod)).await.ok()?;
            (created["spec"]["nodeName"] == "node").then_some(())
        })
        .await;
        Ok(())
    }
}

async fn call(
    kubeconfig: &Path,
    method: http::Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Value)> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    // The tests have a runtime each, and a client does not outlive the one that it was made in.
    let client = kube::Client::try_from(config)?;
    let content_type =
        if method == http::Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let manager = if path.contains('?') { "&fieldManager=kubectl" } else { "?fieldManager=kubectl" };
    let changes = matches!(method, http::Method::POST | http::Method::PUT | http::Method::PATCH);
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{path}{}", if changes { manager } else { "" }))
        .header("content-type", content_type)
        .body(Body::from(body.map(|body| body.to_string().into_bytes()).unwrap_or_default()))?;
    let answer = client.send(request).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// Whether the API server serves, its storage included. For threads that may block.
fn is_ready(kubeconfig: &Path) -> bool {
    Handle::current().block_on(async {
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            if !matches!(call(kubeconfig, http::Method::GET, path, None).await, Ok((200, _))) {
                return false;
            }
        }
        true
    })
}

/// Starts a program again when it ends, as a supervisor would.
fn respawning(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "while :; do \"$@\"; sleep 0.2; done", "respawn"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn kubeconfig(files: &Path, port: u16, user: &str) -> String {
    let authority = files.join("certificates/apiserver.crt");
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters: [{{name: test, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: \"{}\"}}}}]\n\
         users: [{{name: test, user: {{token: admin{user}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
         current-context: test\n",
        authority.display()
    )
}

/// Whether all programs are there. Says once when they are not.
#[allow(clippy::disallowed_methods, clippy::print_stderr, reason = "a test must not be left out in silence")]
fn is_built() -> bool {
    let Some(missing) = ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]
        .map(program)
        .into_iter()
        .find_map(Result::err)
    else {
        return true;
    };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing:#}");
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("tests on Kubernetes are left out: {missing:#}"));
    false
}

/// A program of the control plane.
fn program(name: &str) -> Result<PathBuf> {
    let home = if name == "kwok" { "KWOK" } else { "KUBERNETES" };
    let version = VERSIONS.lines().find_map(|line| line.strip_prefix(home)?.strip_prefix('='));
    let version = version.with_context(|| format!("scripts/kubernetes.versions does not name {home}"))?;
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| std::env::home_dir().map(|home| home.join(".cache"))).unwrap_or_default();
    let built = caches.join("hyperfleet-test").join(format!("{}-{version}", home.to_lowercase()));
    let places = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).into_iter().chain([built]);
    let mut programs = places.map(|place| place.join(name));
    programs
        .find(|program| program.is_file())
        .with_context(|| format!("{name} is not built: run `make setup`"))
}
