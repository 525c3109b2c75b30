//! A NATS server of Debian's binary with JetStream, on a port and in a directory of its own.

use std::io::Read as _;
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;

use crate::process::{Process, free_ports, program};

/// A running NATS server; it goes with this process.
#[derive(Debug)]
pub struct Nats {
    process: Process,
    port: u16,
}

impl Nats {
    /// The server that all tests of this process share, started at the first call.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Nats> = OnceLock::new();
        SHARED.get_or_init(|| Self::launch(&[]).expect("the shared test broker must start"))
    }

    /// A server of its own.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// A server of its own with further arguments, such as a token that it demands.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        tokio::task::spawn_blocking(move || Self::launch(&arguments)).await?
    }

    /// The address for `broker.nats.url`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Stops it as a crash would.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again on the same port and data.
    pub async fn start_again(&self) -> Result<()> {
        tokio::task::block_in_place(|| self.process.start(|| self.answers()))
    }

    fn launch(arguments: &[String]) -> Result<Self> {
        let server = program("nats-server", &["/usr/sbin"])?;
        let [port] = free_ports()?;
        let process = Process::prepare("hf-nats-", "", |directory| {
            let mut command = Command::new(server);
            command
                .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
                .arg(directory.join("data"))
                .args(arguments);
            Ok(command)
        })?;
        let nats = Self { process, port };
        nats.process.start(|| nats.answers())?;
        Ok(nats)
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut greeting = [0; 4];
        stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && &greeting == b"INFO"
    }
}
