//! The committer's session: a connection with its prepared statements, and how long PostgreSQL lets it be idle in a
//! transaction, which holds the feed lock.

use std::time::Duration;

use tokio_postgres::Client;

use super::connect::Address;
use super::{load, milliseconds, write_statements};
use crate::failure::Failure;

/// How long a replica may be idle in a transaction.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_millis(1750);

/// The same in a transaction that is repeated because its decisions took longer.
pub(super) const MAX_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a replica may take no data that PostgreSQL sends, where TCP can tell.
const COMMITTER_TCP_USER_TIMEOUT: Duration = Duration::from_millis(1_500);

pub(super) struct Session {
    pub(super) client: Client,
    pub(super) load: load::Statements,
    pub(super) writes: write_statements::Statements,
}

impl Session {
    pub(super) async fn open(address: &Address) -> Result<Self, Failure> {
        let client = address.connect_by_key().await?;
        let (idle, unacknowledged) = (milliseconds(IDLE_TIMEOUT), milliseconds(COMMITTER_TCP_USER_TIMEOUT));
        client
            .batch_execute(&format!(
                "set idle_in_transaction_session_timeout = '{idle}'; set tcp_user_timeout = '{unacknowledged}'"
            ))
            .await?;
        let load = load::Statements::prepare(&client).await?;
        let writes = write_statements::Statements::prepare(&client).await?;
        Ok(Self { client, load, writes })
    }
}

/// The statement that sets the idle timeout of a transaction.
pub(super) fn set_idle_timeout(timeout: Duration) -> String {
    format!("set local idle_in_transaction_session_timeout = '{}'", milliseconds(timeout))
}

/// How long a replica may be idle while it encodes and sends `size` bytes.
pub(super) fn idle_timeout_while_sending(size: usize) -> Duration {
    IDLE_TIMEOUT + Duration::from_secs((size >> 20) as u64)
}
