//! A RabbitMQ node of Debian's packages, with ports, a node name, a cookie and a directory of its own. Its guest
//! user may come in, because it listens on loopback alone. No plugins: they cost seconds at every start.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;

use crate::process::{Process, free_ports, program};

/// A running RabbitMQ node; it goes with this process.
#[derive(Debug)]
pub struct RabbitMq {
    process: Process,
    port: u16,
}

impl RabbitMq {
    /// The node that all tests of this process share, started at the first call.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RabbitMq> = OnceLock::new();
        SHARED.get_or_init(|| Self::launch().expect("the shared test broker must start"))
    }

    /// A node of its own. It takes some seconds.
    pub async fn start() -> Result<Self> {
        tokio::task::spawn_blocking(Self::launch).await?
    }

    /// The address for `broker.rabbitmq.url`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/", self.port)
    }

    /// Stops it as a crash would.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again on the same ports and data.
    pub async fn start_again(&self) -> Result<()> {
        tokio::task::block_in_place(|| self.process.start(|| self.answers()))
    }

    fn launch() -> Result<Self> {
        // The command in the path refuses everybody but root and `rabbitmq`, and writes to the system's places.
        let server = program("rabbitmq-server", &["/usr/lib/rabbitmq/bin"])?;
        let [port, distribution, mapper] = free_ports()?;
        // The port mapper of Erlang outlives its nodes, so it is asked to go.
        let farewell = format!("ERL_EPMD_PORT={mapper} epmd -kill");
        let process = Process::prepare("hf-rabbit-", &farewell, |directory| {
            let cookie = directory.join(".erlang.cookie");
            fs::write(&cookie, "HYPERFLEETTEST")?;
            fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
            fs::write(directory.join("enabled_plugins"), "[].\n")?;
            // Memory and disk of the machine are other tests' too: an alarm here would stop publishers.
            fs::write(
                directory.join("rabbitmq.conf"),
                "vm_memory_high_watermark.absolute = 2GB\ndisk_free_limit.absolute = 1MB\n",
            )?;
            let mut command = Command::new(server);
            command
                .env("HOME", directory)
                .env("ERL_EPMD_PORT", mapper.to_string())
                // Or it would not go as long as it believes in a node.
                .env("ERL_EPMD_RELAXED_COMMAND_CHECK", "1")
                .env("RABBITMQ_NODENAME", format!("hf{port}@localhost"))
                .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
                .env("RABBITMQ_NODE_PORT", port.to_string())
                .env("RABBITMQ_DIST_PORT", distribution.to_string())
                .env("RABBITMQ_MNESIA_BASE", directory.join("mnesia"))
                .env("RABBITMQ_LOG_BASE", directory.join("log"))
                .env("RABBITMQ_PID_FILE", directory.join("pid"))
                .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
                .env("RABBITMQ_CONFIG_FILE", directory.join("rabbitmq.conf"))
                .env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("enabled_plugins"));
            Ok(command)
        })?;
        let rabbitmq = Self { process, port };
        rabbitmq.process.start(|| rabbitmq.answers())?;
        Ok(rabbitmq)
    }

    /// The listener is the last thing that a starting node opens; it answers a greeting with its own.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut first = [0];
        stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
            && stream.write_all(b"AMQP\x00\x00\x09\x01").is_ok()
            && stream.read_exact(&mut first).is_ok()
    }
}
