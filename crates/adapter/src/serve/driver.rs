//! Answers the effects of executions with the real world: the API, files, and Kubernetes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use hyperfleet_client::{Client, Error, GetQuery, ItemPath, Request};
use hyperfleet_core::Timestamp;
use serde_json::Value;

use crate::engine::{Answer, Call, Effect, Execution, Finished, Reply, Step, Stored};
use crate::files;
use crate::targets::{ErrorClass, Observation, TargetError};
use crate::task::{Backoff, TargetClient};

/// The real world.
#[derive(Debug)]
pub struct Driver {
    /// The API.
    pub client: Client,
    /// Name of the adapter.
    pub adapter: String,
    /// How calls of a task are tried again where the task says nothing.
    pub attempts: u32,
    /// How the pauses grow.
    pub backoff: Backoff,
    /// The first pause.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// Time for one attempt.
    pub timeout: Duration,
    /// Directories below which params may read files.
    pub file_roots: Vec<PathBuf>,
    /// Types of the objects that the task names.
    pub types: Vec<(String, String)>,
    /// Kubernetes, if the task uses it.
    #[cfg(feature = "kubernetes")]
    pub kubernetes: Option<crate::targets::kubernetes::Kubernetes>,
}

fn error(class: ErrorClass, reason: &str, message: impl Into<String>) -> TargetError {
    TargetError { class, reason: reason.to_owned(), message: message.into() }
}

/// An error of the API by what follows from it.
pub(crate) fn of_client(failure: &Error) -> TargetError {
    let message = failure.to_string();
    match failure {
        Error::Unreachable { .. } => {
            error(ErrorClass::Outage { retry_after: None }, "ApiUnavailable", message)
        }
        Error::TimedOut { .. } => error(ErrorClass::Transient, "ApiTimeout", message),
        Error::Problem(problem) => match problem.status {
            429 | 502 | 503 => {
                error(ErrorClass::Outage { retry_after: problem.retry_after }, "ApiUnavailable", message)
            }
            408 | 409 | 425 | 500 | 504 => error(ErrorClass::Transient, "ApiFailed", message),
            401 | 403 => error(ErrorClass::Transient, "Forbidden", message),
            404 if problem.code == "HYPERFLEET-NTF-000" => error(ErrorClass::Terminal, "WrongUrl", message),
            _ => error(ErrorClass::Terminal, "Refused", message),
        },
        _ => error(ErrorClass::Terminal, "ApiFailed", message),
    }
}

fn is_gone(failure: &Error) -> bool {
    failure.problem().is_some_and(|problem| problem.status == 404 && problem.code != "HYPERFLEET-NTF-000")
}

impl Driver {
    /// Runs an execution to its end.
    pub async fn execute(&self, client: &Client, item: &ItemPath, mut execution: Execution) -> Finished {
        let mut answer = None;
        loop {
            match execution.resume(answer.take(), Timestamp::now()) {
                Step::Done(finished) => return *finished,
                Step::Ask(effect) => answer = Some(self.answer(client, item, effect).await),
            }
        }
    }

    /// Makes an effect happen.
    pub async fn answer(&self, client: &Client, item: &ItemPath, effect: Effect) -> Answer {
        match effect {
            Effect::Read { after } => {
                tokio::time::sleep(after).await;
                Answer::Read(match client.get(item, &GetQuery::default()).await {
                    Ok(resource) => Ok(Some(resource.into_value())),
                    Err(failure) if is_gone(&failure) => Ok(None),
                    Err(failure) => Err(of_client(&failure)),
                })
            }
            Effect::LastReport => Answer::LastReport(match client.reports(item).await {
                Ok(reports) => {
                    let own = reports.into_iter().find(|report| report.adapter() == self.adapter);
                    Ok(own.map(|report| Value::Object(report.raw().clone())))
                }
                Err(failure) => Err(of_client(&failure)),
            }),
            Effect::Call(call) => Answer::Called(self.call(client, call).await),
            Effect::File { path } => {
                let roots = self.file_roots.clone();
                let read = move || files::read_below(Path::new(&path), &roots, files::MAX_PARAM);
                let read = tokio::task::spawn_blocking(read).await;
                Answer::File(read.unwrap_or_else(|_| Err("the file was not read".to_owned())))
            }
            Effect::Report(report) => Answer::Reported(self.report(client, item, &report).await),
            Effect::Observe(lookups) => {
                let looked = lookups.iter().map(|lookup| self.observe(lookup));
                Answer::Observed(futures_util::future::join_all(looked).await)
            }
            Effect::Owned => Answer::Observed(vec![self.owned(item).await]),
            Effect::Apply(apply) => Answer::Applied(self.apply(&apply).await),
            Effect::Delete(delete) => Answer::Deleted(self.delete(&delete).await),
        }
    }

    async fn report(&self, client: &Client, item: &ItemPath, report: &Value) -> Result<Stored, TargetError> {
        let mut request = Request::new(Method::PUT, item.statuses());
        request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = Some(report.to_string().into());
        let answer = match client.send(request).await {
            Ok(answer) => answer,
            Err(failure) => return Err(of_client(&failure)),
        };
        match answer.status.as_u16() {
            204 => Ok(Stored::Discarded),
            _ => match answer.accepted() {
                Ok(_) => Ok(Stored::Stored),
                Err(failure) if is_gone(&failure) => Ok(Stored::Gone),
                Err(failure) => Err(of_client(&failure)),
            },
        }
    }

    /// A call of the task, tried again where that is safe.
    async fn call(&self, client: &Client, call: Call) -> Result<Reply, TargetError> {
        let method = Method::from_bytes(call.method.as_bytes()).unwrap_or(Method::GET);
        let mut request = Request::new(method.clone(), call.path);
        for (name, value) in &call.headers {
            let pair =
                HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::try_from(value.as_str()).ok());
            let Some((name, value)) = pair else {
                return Err(error(
                    ErrorClass::Terminal,
                    "Refused",
                    format!("the header {name:?} cannot be sent"),
                ));
            };
            request.headers.insert(name, value);
        }
        if let Some(body) = call.body {
            request
                .headers
                .entry(http::header::CONTENT_TYPE)
                .or_insert(HeaderValue::from_static("application/json"));
            request.body = Some(body.into());
        }
        let repeats = method != Method::POST || request.headers.contains_key("idempotency-key");
        let attempts = call.retries.attempts.unwrap_or(self.attempts).max(1);
        let timeout = call.timeout.unwrap_or(self.timeout);
        let backoff = call.retries.backoff.unwrap_or(self.backoff);
        for attempt in 1.. {
            let (outcome, retry_after) = match client.send_once(&request, timeout).await {
                Ok(answer) => {
                    let retry_after = answer.header("retry-after").and_then(|text| text.parse().ok());
                    let body = String::from_utf8_lossy(&answer.body).into_owned();
                    (Ok(Reply { status: answer.status.as_u16(), body }), retry_after.map(Duration::from_secs))
                }
                Err(failure) => (Err(of_client(&failure)), None),
            };
            let may_pass = match &outcome {
                Ok(reply) => matches!(reply.status, 408 | 429 | 500..),
                Err(failure) => matches!(failure.class, ErrorClass::Outage { .. } | ErrorClass::Transient),
            };
            if !may_pass || !repeats || attempt >= attempts {
                return outcome;
            }
            let pause = pause(backoff, attempt, self.first_pause, self.longest_pause);
            tokio::time::sleep(retry_after.unwrap_or(pause).min(self.longest_pause).max(pause)).await;
        }
        Err(error(ErrorClass::Transient, "NoAnswer", "the call was given up"))
    }
}

/// The pause after an attempt, a tenth more or less.
fn pause(backoff: Backoff, attempt: u32, first: Duration, longest: Duration) -> Duration {
    let plain = match backoff {
        Backoff::Constant => first,
        Backoff::Linear => first.saturating_mul(attempt),
        Backoff::Exponential => first.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX)),
    };
    plain.min(longest).mul_f64(0.9 + 0.2 * fastrand::f64())
}

#[cfg(feature = "kubernetes")]
mod objects {
    use super::*;
    use crate::engine::{Apply, Delete, Lookup};
    use crate::targets::Operation;
    use crate::targets::kubernetes::{Current, Kind, Kubernetes};

    impl Driver {
        fn cluster(&self, client: TargetClient) -> Result<&Kubernetes, TargetError> {
            let missing = || error(ErrorClass::Terminal, "NoTarget", format!("{client:?} is not configured"));
            match client {
                TargetClient::Kubernetes => self.kubernetes.as_ref().ok_or_else(missing),
                TargetClient::Maestro => Err(missing()),
            }
        }

        pub(super) async fn observe(&self, lookup: &Lookup) -> Observation {
            match self.cluster(lookup.client) {
                Ok(cluster) => cluster.observe(&lookup.query).await,
                Err(failure) => Observation::Unknown(failure),
            }
        }

        pub(super) async fn owned(&self, item: &ItemPath) -> Observation {
            let kinds: Vec<_> = self
                .types
                .iter()
                .map(|(api_version, kind)| Kind { api_version: api_version.clone(), kind: kind.clone() })
                .collect();
            let id = item.to_string().rsplit('/').next().unwrap_or_default().to_owned();
            match self.cluster(TargetClient::Kubernetes) {
                Ok(cluster) => cluster.owned(&kinds, &self.adapter, &id).await,
                Err(failure) => Observation::Unknown(failure),
            }
        }

        pub(super) async fn apply(&self, apply: &Apply) -> Result<(Operation, Value), TargetError> {
            let cluster = self.cluster(apply.client)?;
            cluster.apply(&apply.manifest, Current::Unread, &apply.ownership, &apply.options).await
        }

        pub(super) async fn delete(&self, delete: &Delete) -> Result<(), TargetError> {
            self.cluster(delete.client)?.delete(&delete.object, delete.propagation).await
        }
    }
}

#[cfg(not(feature = "kubernetes"))]
mod objects {
    use super::*;
    use crate::engine::{Apply, Delete, Lookup};
    use crate::targets::Operation;

    fn missing(client: TargetClient) -> TargetError {
        error(ErrorClass::Terminal, "NoTarget", format!("{client:?} is not part of this build"))
    }

    impl Driver {
        pub(super) async fn observe(&self, lookup: &Lookup) -> Observation {
            Observation::Unknown(missing(lookup.client))
        }

        pub(super) async fn owned(&self, _: &ItemPath) -> Observation {
            Observation::Unknown(missing(TargetClient::Kubernetes))
        }

        pub(super) async fn apply(&self, apply: &Apply) -> Result<(Operation, Value), TargetError> {
            Err(missing(apply.client))
        }

        pub(super) async fn delete(&self, delete: &Delete) -> Result<(), TargetError> {
            Err(missing(delete.client))
        }
    }
}
