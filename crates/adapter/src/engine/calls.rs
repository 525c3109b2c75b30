//! Calls of a task to the API: the URL is made, a read of the resource itself is answered from what was read already,
//! and the status of an answer is told apart: what may pass, what is an outage, what is final.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;

use super::effect::{Answer, Call, Effect, Reply, Retries};
use super::journal::CallRecord;
use super::run::{Failure, Run, outage_or};
use crate::targets::{ErrorClass, TargetError};
use crate::task::ApiCall;

/// The path of the API.
const BASE: &str = "/api/hyperfleet";

/// What is encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'@')
    .remove(b',')
    .remove(b'=')
    .remove(b'+');

/// A call that is ready to be sent.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) call: Call,
    /// Path without its query.
    pub(super) path: String,
}

impl Run {
    /// Renders a call. An error is the author's.
    pub(super) fn ready(&self, call: &ApiCall) -> Result<Ready, String> {
        let render = |text: &crate::task::Text, what: &str| {
            text.render(&self.params, self.now())
                .map_err(|why| format!("the {what} cannot be rendered: {why}"))
        };
        let url = render(&call.url, "URL")?;
        let path = relative(url.trim(), &self.program.base_url, &self.program.api_version)?;
        let body = call.body.as_ref().map(|body| render(body, "body")).transpose()?;
        let mut headers = Vec::new();
        for (name, value) in &call.headers {
            headers.push((name.clone(), render(value, "header")?));
        }
        let plain = path.split('?').next().unwrap_or(&path).trim_end_matches('/').to_owned();
        let retries = Retries { attempts: call.attempts, backoff: call.backoff };
        let call = Call { method: call.method, path, headers, body, timeout: call.timeout, retries };
        Ok(Ready { call, path: plain })
    }

    /// Whether a path is that of the resource, or of something below it.
    pub(super) fn is_subject(&self, path: &str, below: &str) -> bool {
        let Some(path) = path.strip_suffix(below) else { return false };
        path.starts_with(BASE) && path.rsplit('/').next() == Some(self.input.id.as_str())
    }

    /// Sends a call; its answer is a success and JSON, else the failure of `phase` and `step`. Reports are sent by actions
    /// on the resource itself alone, where they are guarded.
    pub(super) async fn call(
        &mut self,
        call: &ApiCall,
        phase: &'static str,
        step: &str,
    ) -> Result<Value, Failure> {
        let ready = self.ready(call).map_err(|why| Failure::of_author(phase, step, why))?;
        if ready.call.method != "GET" && ready.path.ends_with("/statuses") {
            let why =
                "a report can be sent only by a PUT or POST of a post action, on the resource of the event";
            return Err(Failure::of_author(phase, step, why.to_owned()));
        }
        let (text, status) = if ready.call.method == "GET"
            && ready.call.path == ready.path
            && self.is_subject(&ready.path, "")
        {
            // One read, one consistent state.
            (self.resource.to_string(), 200)
        } else {
            let reply = self.exchange_call(ready.call.clone(), phase, step).await?;
            (reply.body, reply.status)
        };
        self.journal.calls.push(CallRecord {
            method: ready.call.method,
            path: ready.call.path.clone(),
            status,
            request: ready.call.body.clone(),
            response: text.clone(),
        });
        accepted(&ready.call, status, &text)
            .map_err(|error| Failure::of_target(phase, step, "api", error))?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|_| {
            let message = format!("{} {} answered no JSON", ready.call.method, ready.path);
            Failure::of_target(phase, step, "api", error(ErrorClass::Terminal, "MalformedAnswer", message))
        })
    }

    async fn exchange_call(&mut self, call: Call, phase: &'static str, step: &str) -> Result<Reply, Failure> {
        let (method, path, request) = (call.method, call.path.clone(), call.body.clone());
        match self.ask(Effect::Call(call)).await {
            Answer::Called(Ok(reply)) => Ok(reply),
            answer => {
                let error = match answer {
                    Answer::Called(Err(error)) => error,
                    _ => outage_or("the call was not answered"),
                };
                let response = error.message.clone();
                self.journal.calls.push(CallRecord { method, path, status: 0, request, response });
                Err(Failure::of_target(phase, step, "api", error))
            }
        }
    }
}

pub(super) fn error(class: ErrorClass, reason: &str, message: String) -> TargetError {
    TargetError { class, reason: reason.to_owned(), message }
}

/// An answer's status as an error.
pub(super) fn accepted(call: &Call, status: u16, body: &str) -> Result<(), TargetError> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or_default();
    let detail: String = detail.chars().filter(|c| !c.is_control()).take(512).collect();
    let path = call.path.split('?').next().unwrap_or_default();
    let message = match detail.is_empty() {
        true => format!("{} {path} answered {status}", call.method),
        false => format!("{} {path} answered {status}: {detail}", call.method),
    };
    Err(match status {
        429 | 502 | 503 => error(ErrorClass::Outage { retry_after: None }, "ApiUnavailable", message),
        408 | 409 | 425 | 500 | 504 => error(ErrorClass::Transient, "ApiFailed", message),
        401 | 403 => error(ErrorClass::Terminal, "Forbidden", message),
        404 => error(ErrorClass::Terminal, "NotFound", message),
        _ => error(ErrorClass::Terminal, "Refused", message),
    })
}

/// Path and query of a URL of a task: relative ones are below the API, absolute ones must be of its origin.
fn relative(url: &str, base_url: &str, version: &str) -> Result<String, String> {
    if url.is_empty() {
        return Err("the URL is empty".to_owned());
    }
    let below = match url.contains("://") {
        false => url,
        true => {
            let base = base_url.trim_end_matches('/');
            let origin = origin(base);
            if !url.starts_with(origin) || url[origin.len()..].starts_with(|c| !matches!(c, '/' | '?')) {
                return Err("the URL is of another origin than clients.hyperfleet_api.base_url".to_owned());
            }
            let rest = &url[origin.len()..];
            // A base below a path, as behind a proxy: the client adds the path again.
            let prefix = base[origin.len()..].split("/api/hyperfleet").next().unwrap_or_default();
            rest.strip_prefix(prefix).unwrap_or(rest)
        }
    };
    let (path, query) = match below.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (below, None),
    };
    if below.starts_with("//") || below.contains(['\\', '#']) {
        return Err("the URL is neither a path nor an absolute URL".to_owned());
    }
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(canonical(segment)?),
        }
    }
    let clean = segments.join("/");
    let mut target =
        if clean.starts_with("api/") { format!("/{clean}") } else { format!("{BASE}/{version}/{clean}") };
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    Ok(target.replace(' ', "%20"))
}

/// A segment as the API reads it, in one spelling, so that what is compared is what is meant.
fn canonical(segment: &str) -> Result<String, String> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| "the URL is no UTF-8".to_owned())?;
    if matches!(&*text, "." | "..") || text.contains(|c: char| c == '/' || c.is_control()) {
        return Err("a segment of the URL holds an encoded separator".to_owned());
    }
    Ok(utf8_percent_encode(&text, SEGMENT).to_string())
}

/// `https://host:port` of a URL.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| at + start);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_paths_of_the_api_and_keep_their_query() {
        let path = |url: &str| relative(url, "http://api.example:8000", "v1");
        for (url, expected) in [
            ("/clusters/1", "/api/hyperfleet/v1/clusters/1"),
            ("clusters/1/statuses?x=1&y=a b", "/api/hyperfleet/v1/clusters/1/statuses?x=1&y=a%20b"),
            ("/api/hyperfleet/v1/clusters//1/", "/api/hyperfleet/v1/clusters/1"),
            ("/clusters/../nodepools", "/api/hyperfleet/v1/nodepools"),
            ("/clusters/%30a/st%61tuses", "/api/hyperfleet/v1/clusters/0a/statuses"),
            ("/clusters/ä", "/api/hyperfleet/v1/clusters/%C3%A4"),
            ("http://api.example:8000/api/hyperfleet/v1/clusters/1", "/api/hyperfleet/v1/clusters/1"),
        ] {
            assert_eq!(path(url).as_deref(), Ok(expected), "{url}");
        }
        for url in [
            "",
            "//evil.example/x",
            "\\\\evil.example",
            "/clusters/1%2Fstatuses",
            "/clusters/%2e%2e/x",
            "https://api.example:8000/x",
            "http://api.example:80001/x",
            "http://api.example:8000.evil.example/x",
        ] {
            assert!(path(url).is_err(), "{url}");
        }
        let proxied = relative("https://h/fleet/api/hyperfleet/v1/clusters/1", "https://h/fleet", "v1");
        assert_eq!(proxied.as_deref(), Ok("/api/hyperfleet/v1/clusters/1"));
    }

    #[test]
    fn statuses_are_told_apart() {
        let call = Call {
            method: "GET",
            path: "/x?secret=1".into(),
            headers: vec![],
            body: None,
            timeout: None,
            retries: Retries::default(),
        };
        assert_eq!(accepted(&call, 204, ""), Ok(()));
        let class = |status| accepted(&call, status, r#"{"detail":"why"}"#).unwrap_err();
        assert_eq!(class(503).class, ErrorClass::Outage { retry_after: None });
        assert_eq!(class(500).class, ErrorClass::Transient);
        assert_eq!(class(404).class, ErrorClass::Terminal);
        assert_eq!(class(400).message, "GET /x answered 400: why");
    }
}
