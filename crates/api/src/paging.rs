//! Pages of lists that end early, because their items are too large together. Only a token continues such a page: a later
//! one by its number would leave out what the page did not hold, so it is refused.

use hyperfleet_core::{Error, Fault, FaultKind, Faults, Reservation};

use crate::app::App;
use crate::gate::AdmittedCaller;

/// Which page of a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageChoice {
    /// The one that was asked for.
    Page,
    /// The first of its size.
    First,
}

/// Reads a page within a reservation. `number` is that of a page which was asked for by its number.
pub(crate) async fn read<T, F>(
    app: &App,
    caller: &AdmittedCaller,
    number: Option<u64>,
    read: impl Fn(PageChoice, Reservation) -> F,
) -> Result<(T, Reservation), Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let later = number.filter(|number| *number > 1);
    if let Some(number) = later {
        let first = app.reservation(caller);
        read(PageChoice::First, first.clone()).await?;
        check(&first, number)?;
    }
    let reservation = app.reservation(caller);
    let found = read(PageChoice::Page, reservation.clone()).await?;
    if let Some(number) = later {
        check(&reservation, number)?;
    }
    Ok((found, reservation))
}

fn check(page: &Reservation, number: u64) -> Result<(), Error> {
    if !page.is_cut() {
        return Ok(());
    }
    let message = format!(
        "page {number} would leave items out, because pages of this size are larger than {} bytes: \
         follow next_page_token, or ask for a smaller pageSize",
        page.page_limit()
    );
    let fault = Fault::new(FaultKind::Parameter, "page", message).given(&number.into()).rule("size");
    Err(Faults::one(fault).into_error())
}
