//! A refusal of the server, or an unreachable server, as a message for users and an exit code for scripts.

use hyperfleet_client::{Error, FieldError, Problem};
use serde_json::Value;

use crate::commands::{Exit, Failure};
use crate::output::{dim, json, text};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Problem(problem) => of_status(problem.status),
            Error::Unreachable { .. } | Error::TimedOut { .. } => Exit::Unreachable,
            Error::Configuration(_) | Error::Invalid(_) => Exit::Usage,
            Error::Malformed { .. } | Error::NoWatch => Exit::Failed,
        };
        let said = match &error {
            Error::Problem(problem) => problem_text(problem),
            Error::Unreachable { .. } => {
                format!(
                    "{}\n  {}",
                    text::clean(&error.to_string()),
                    dim(
                        "check that the server is running, and --server or the context; `hyperfleet up` starts a server"
                    )
                )
            }
            other => text::clean(&other.to_string()).into_owned(),
        };
        Self::with(code, said)
    }
}

/// The exit code for an answer that is no success.
pub(crate) fn of_status(status: u16) -> Exit {
    match status {
        401 | 403 => Exit::NotAllowed,
        404 | 410 => Exit::NotFound,
        409 => Exit::Conflict,
        429 | 502..=504 => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// Title, detail, faulty fields and trace id.
fn problem_text(problem: &Problem) -> String {
    let mut out = text::clean(&problem.title).into_owned();
    let code =
        if problem.code.is_empty() { String::new() } else { format!("{}, ", text::clean(&problem.code)) };
    out.push_str(&dim(&format!(" ({code}HTTP {})", problem.status)));
    let mut line = |text: &str| {
        out.push_str("\n  ");
        out.push_str(text);
    };
    for part in problem.detail.lines() {
        line(&text::clean(part));
    }
    // The detail often repeats a single fault, with more about its position.
    let is_news =
        |error: &&FieldError| !error.field.is_empty() && !problem.detail.starts_with(&error.message);
    for error in problem.errors.iter().filter(is_news) {
        let mut said = text::clean(&error.message).into_owned();
        let names_field =
            error.message.strip_prefix(&*error.field).is_some_and(|rest| rest.starts_with([' ', ':']));
        if !names_field {
            said = format!("{}: {said}", text::clean(&error.field));
        }
        if let Some(value) = error.value.as_ref().filter(|value| is_short(value)) {
            said.push_str(&dim(&format!(" (given: {})", json::compact(value))));
        }
        line(&said);
    }
    if problem.status == 401 {
        line(&dim("log in with `hyperfleet login`, or pass a token with --token-file or HYPERFLEET_TOKEN"));
    }
    if let Some(pause) = problem.retry_after {
        line(&format!("try again in {}s", pause.as_secs()));
    }
    if let Some(trace) = &problem.trace_id {
        line(&dim(&format!("trace id: {}", text::clean(trace))));
    }
    out
}

fn is_short(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && value.to_string().len() <= 80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_printed_with_its_faults_and_trace_id() {
        let problem = Problem {
            status: 400,
            code: "HYPERFLEET-VAL-000".to_owned(),
            title: "Validation Error".to_owned(),
            detail: "2 faults".to_owned(),
            errors: vec![
                FieldError {
                    field: "name".to_owned(),
                    message: "too short".to_owned(),
                    value: Some("x".into()),
                    ..FieldError::default()
                },
                FieldError {
                    field: "spec.\x1b[31m".to_owned(),
                    message: "is missing".to_owned(),
                    ..FieldError::default()
                },
            ],
            trace_id: Some("4711".to_owned()),
            ..Problem::default()
        };
        let failure = Failure::from(Error::Problem(Box::new(problem)));
        assert_eq!(failure.code, 1);
        insta::assert_snapshot!(failure.text, @r#"
        Validation Error (HYPERFLEET-VAL-000, HTTP 400)
          2 faults
          name: too short (given: "x")
          spec.\u{1b}[31m: is missing
          trace id: 4711
        "#);
    }

    #[test]
    fn a_fault_that_repeats_the_detail_is_printed_once() {
        let problem = Problem {
            status: 400,
            title: "Invalid Query Parameter".to_owned(),
            detail: "search at position 1: `nmae` is not a field\n  nmae = 'x'\n  ^".to_owned(),
            errors: vec![FieldError {
                field: "search".to_owned(),
                message: "search at position 1: `nmae` is not a field".to_owned(),
                ..FieldError::default()
            }],
            ..Problem::default()
        };
        insta::assert_snapshot!(Failure::from(Error::Problem(Box::new(problem))).text, @r"
        Invalid Query Parameter (HTTP 400)
          search at position 1: `nmae` is not a field
            nmae = 'x'
            ^
        ");
    }

    #[test]
    fn scripts_tell_failures_apart_by_the_exit_code() {
        let code = |status| u8::from(of_status(status));
        assert_eq!([400, 401, 403, 404, 409, 410, 429, 500, 503].map(code), [1, 5, 5, 3, 4, 3, 6, 1, 6]);
    }
}
