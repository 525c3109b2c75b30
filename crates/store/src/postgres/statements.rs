//! Statements that are prepared once on a connection.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement};

use crate::failure::{Failure, FailureKind};

/// Prepares statements side by side.
pub(super) async fn prepare<const N: usize>(
    client: &Client,
    texts: [String; N],
) -> Result<[Statement; N], Failure> {
    let statements = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
    statements.try_into().map_err(|_| Failure::new(FailureKind::Defect, "as many statements as texts"))
}

/// Statements by name, prepared side by side on one connection.
macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        pub(in crate::postgres) struct Statements {
            $(pub(in crate::postgres) $name: tokio_postgres::Statement,)*
        }

        impl Statements {
            pub(in crate::postgres) async fn prepare(
                client: &tokio_postgres::Client,
            ) -> Result<Self, $crate::failure::Failure> {
                let [$($name),*] = $crate::postgres::statements::prepare(client, [$($text),*]).await?;
                Ok(Self { $($name),* })
            }
        }
    };
}
pub(super) use statements;
