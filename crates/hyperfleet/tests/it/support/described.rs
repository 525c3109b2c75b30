//! The server's OpenAPI document as a judge of its answers: the operation by method and path, the response by status
//! and media type, the body by its schema. A status that is not documented fails the test like a wrong member does.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use hyperfleet_testkit::{Answer, Client};
use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

use super::BASE;

/// Most servers of a test run have the same settings: each description is asked for and compiled once.
static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Described>>>> = LazyLock::new(Mutex::default);

/// One description, with the schemas that were needed so far.
pub(crate) struct Described {
    document: Value,
    validators: Mutex<HashMap<(bool, String), Arc<Validator>>>,
}

impl Described {
    /// What a server with these settings says of itself; this one is asked if none was yet.
    pub(crate) async fn by(settings: String, api: &Client) -> Arc<Self> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(described) = known().get(&settings) {
            return described.clone();
        }
        let described = Self::of(api).await;
        known().entry(settings).or_insert(described).clone()
    }

    /// What the server says of itself.
    pub(crate) async fn of(api: &Client) -> Arc<Self> {
        let document = api.get(&format!("{BASE}/openapi")).await.expect_status(200).json();
        Arc::new(Self { document, validators: Mutex::default() })
    }

    /// Fails the test when the answer is not what the document says of this request.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let Some((template, item)) = self.path_item(path) else {
            assert!(answer.status == 404, "{path} is not documented, but answered {answer}");
            return self.check_problem(method, answer);
        };
        let operation = match method {
            "HEAD" => &item["get"],
            other => &item[other.to_ascii_lowercase()],
        };
        if operation.is_null() {
            assert!(answer.status == 405, "{method} {template} is not documented, but answered {answer}");
            return self.check_problem(method, answer);
        }
        let response = &operation["responses"][answer.status.to_string()];
        assert!(!response.is_null(), "{method} {template} does not document this answer: {answer}");
        let response = self.resolved(response);
        let Some(content) = response.get("content") else {
            assert!(answer.body.is_empty(), "{method} {template} documents no body: {answer}");
            return;
        };
        let media_type = answer.header("content-type").unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default();
        let described = &content[media_type];
        assert!(!described.is_null(), "{method} {template} does not document {media_type:?}: {answer}");
        if method == "HEAD" {
            assert!(answer.body.is_empty(), "an answer to HEAD has no body: {answer}");
        } else if media_type.ends_with("json") {
            let whole = !query.split('&').any(|parameter| parameter.starts_with("fields="));
            self.check_body(whole, &described["schema"], answer);
        }
    }

    #[track_caller]
    fn check_problem(&self, method: &str, answer: &Answer) {
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer}");
        if method != "HEAD" {
            self.check_body(true, &json!({"$ref": "#/components/schemas/Problem"}), answer);
        }
    }

    /// With `whole`, a partial resource is no alternative: only `fields` asks for one.
    #[track_caller]
    fn check_body(&self, whole: bool, schema: &Value, answer: &Answer) {
        let validator = {
            let mut known = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
            let compile = || Arc::new(self.compile(whole, schema));
            Arc::clone(known.entry((whole, schema.to_string())).or_insert_with(compile))
        };
        let body = answer.json();
        let faults: Vec<_> =
            validator.iter_errors(&body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "not as documented by {schema}:\n{}\n{answer}", faults.join("\n"));
    }

    fn compile(&self, whole: bool, schema: &Value) -> Validator {
        let mut root = json!({"allOf": [schema], "components": self.document["components"]});
        if whole {
            root = without_partial(root);
        }
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .build(&root)
            .expect("the schemas of the OpenAPI document must be valid")
    }

    /// The path template that fits `path` with the most literal segments, and its item.
    fn path_item(&self, path: &str) -> Option<(&str, &Value)> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let given: Vec<&str> = path.split('/').collect();
        let paths = self.document["paths"].as_object().expect("an OpenAPI document has paths");
        let fits = |template: &str| {
            let parts: Vec<&str> = template.split('/').collect();
            let alike = parts.iter().zip(&given).all(|(part, given)| part.starts_with('{') || part == given);
            (alike && parts.len() == given.len())
                .then(|| parts.iter().filter(|p| !p.starts_with('{')).count())
        };
        paths
            .iter()
            .filter_map(|(template, item)| Some((fits(template)?, template, item)))
            .max_by_key(|(literals, ..)| *literals)
            .map(|(_, template, item)| (template.as_str(), item))
    }

    fn resolved<'a>(&'a self, part: &'a Value) -> &'a Value {
        match part["$ref"].as_str() {
            Some(reference) => self
                .document
                .pointer(reference.trim_start_matches('#'))
                .unwrap_or_else(|| panic!("{reference} must be in the document")),
            None => part,
        }
    }
}

/// The document without the alternative of a partial resource.
fn without_partial(value: Value) -> Value {
    let partial = json!({"$ref": "#/components/schemas/PartialResource"});
    match value {
        Value::Array(items) => items.into_iter().map(without_partial).collect(),
        Value::Object(members) => {
            let kept = members.into_iter().map(|(name, value)| match (name.as_str(), value) {
                ("anyOf", Value::Array(options)) => {
                    (name, options.into_iter().filter(|option| *option != partial).collect())
                }
                (_, value) => (name, without_partial(value)),
            });
            kept.collect::<Map<_, _>>().into()
        }
        plain => plain,
    }
}

mod tests {
    use super::*;
    use crate::support::{App, DEFAULT, href};

    /// A real answer, altered, before the judge.
    async fn judged(query: &str, alter: impl FnOnce(&mut Answer, &mut Value)) {
        let app = App::sqlite(DEFAULT).await;
        let cluster = app.create_cluster("judged").await;
        let path = format!("{}{query}", href(&cluster));
        let mut answer = app.get(&path).await.expect_status(200);
        let mut body = answer.json();
        alter(&mut answer, &mut body);
        answer.body = body.to_string().into();
        Described::of(&app.api()).await.check("GET", &path, &answer);
    }

    #[tokio::test]
    async fn an_answer_as_documented_passes() {
        judged("", |_, _| ()).await;
        judged("?fields=name", |_, _| ()).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not as documented")]
    async fn a_missing_member_fails() {
        judged("", |_, body| drop(body.as_object_mut().unwrap().remove("name"))).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not as documented")]
    async fn an_unknown_member_fails() {
        judged("", |_, body| body["colour"] = "red".into()).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not as documented")]
    async fn a_value_of_another_form_fails() {
        judged("", |_, body| body["created_time"] = "yesterday".into()).await;
    }

    #[tokio::test]
    #[should_panic(expected = "does not document this answer")]
    async fn an_undocumented_status_fails() {
        judged("", |answer, _| answer.status = 201).await;
    }

    #[tokio::test]
    #[should_panic(expected = "does not document \"text/plain\"")]
    async fn an_undocumented_media_type_fails() {
        judged("", |answer, _| drop(answer.headers.insert("content-type", "text/plain".parse().unwrap())))
            .await;
    }
}
