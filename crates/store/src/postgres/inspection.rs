//! Reads for a verification: the rows of statements as text, from one snapshot that writes nothing. They may take long and
//! read much, so they have a connection of their own.

use tokio_postgres::SimpleQueryMessage;

use super::connect::Address;
use super::connections::Connections;
use crate::failure::{Failure, FailureKind};
use crate::maintenance::migrations::OpenError;
use crate::{Options, TextRow};

const BEGIN: &str = "begin isolation level repeatable read, read only; set local statement_timeout = 0";

pub(crate) struct Inspection(Connections);

impl Inspection {
    /// It connects when it is needed.
    pub(crate) fn new(options: &Options) -> Result<Self, OpenError> {
        let address = Address::new(options)?;
        Ok(Self(Connections::new(address.config.clone(), &address, options, 1)?))
    }

    pub(crate) async fn read(&self, statements: &[String]) -> Result<Vec<Vec<TextRow>>, Failure> {
        let connection = self.0.take().await?;
        let found = texts(connection.client(), statements).await;
        match &found {
            Err(failure) if failure.kind == FailureKind::Unavailable => self.0.forget_all(connection),
            _ => connection.give_back(),
        }
        found
    }
}

async fn texts(
    client: &deadpool_postgres::Client,
    statements: &[String],
) -> Result<Vec<Vec<TextRow>>, Failure> {
    let text = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        }
        _ => None,
    };
    let read = async {
        client.batch_execute(BEGIN).await?;
        let mut found = Vec::with_capacity(statements.len());
        for statement in statements {
            found.push(client.simple_query(statement).await?.into_iter().filter_map(text).collect());
        }
        Ok(found)
    };
    let found = read.await;
    client.batch_execute("rollback").await?;
    found
}
