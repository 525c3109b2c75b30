//! Row-level security of PostgreSQL, for each kind of database user that a server may have. The policies themselves are
//! tested in the store.

use std::sync::Arc;

use hyperfleet_testkit::{Database, Postgres, Store};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::*;
use crate::support::{launch, run, unique};

const ENFORCED: &str = "PostgreSQL keeps tenants apart too";
const NOT_ENFORCED: &str = "PostgreSQL does not keep tenants apart, only this server does";

/// A database, and the role as which a server connects.
struct Site {
    database: Arc<Database>,
    user: String,
}

impl Site {
    /// `attributes` are those of the user, as `create role` takes them.
    async fn new(attributes: &str) -> Self {
        let database = Arc::new(Postgres::shared().database().await);
        let site = Self { database, user: unique("user").replace('-', "_") };
        site.ask(&format!("create role {} login {attributes}", site.user)).await;
        site
    }

    async fn owned(attributes: &str) -> Self {
        let site = Self::new(attributes).await;
        site.ask(&format!("alter database {} owner to {}", site.database.name(), site.user)).await;
        site
    }

    /// As a superuser.
    async fn ask(&self, statements: &str) -> Vec<String> {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let answer = client.simple_query(statements).await.unwrap();
        let first = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        answer.iter().filter_map(first).collect()
    }

    /// A server that is this user.
    async fn start(&self, migrate: &str) -> App {
        let url = self.database.url().replace("postgres://postgres@", &format!("postgres://{}@", self.user));
        let launch = launch().config(tenants()).env("HYPERFLEET_DATABASE_MIGRATE", migrate);
        App::launched(launch.store(Store::Postgres(url)), Some(self.database.clone())).await
    }

    /// Does what the log advises to the superuser.
    async fn heed(&self, app: &App) {
        let line = last_log(app, NOT_ENFORCED).expect("the log says that row-level security is missing");
        let (_, advice) = text(&line["remedy"]).split_once("as a superuser: ").unwrap();
        self.ask(advice.split_once(". Then").unwrap().0).await;
    }
}

fn last_log(app: &App, message: &str) -> Option<Value> {
    app.server.logs().into_iter().rev().find(|line| line["message"] == message)
}

/// That the server says so, and works.
#[track_caller]
fn assert_stands(app: &App) {
    assert!(
        last_log(app, ENFORCED).is_some() && last_log(app, NOT_ENFORCED).is_none(),
        "{:?}",
        app.server.logs()
    );
}

/// That both tenants find what is theirs, in every way, and nothing else.
async fn use_it(app: &App, name: &str) {
    for caller in ["a", "b"].map(|name| org(app, name)) {
        let made = caller.cluster(name, &json!({"environment": "dev"})).await;
        system(app).post(&format!("{}/statuses", href(&made)), &validated()).await;
        for path in ["/clusters".to_owned(), format!("/clusters?{}", search("labels.environment = 'dev'"))] {
            assert!(caller.list(&path).await.1.contains(&name.to_owned()));
        }
        assert_eq!(caller.get(href(&made)).await.expect_status(200).json()["name"], name);
        let statuses = caller.get(&format!("{}/statuses", href(&made))).await.expect_status(200).json();
        assert_eq!(statuses["total"], 1);
    }
    assert_eq!(system(app).list(&format!("/clusters?{}", search(&format!("name = '{name}'")))).await.0, 2);
}

#[test]
fn a_user_who_may_create_roles_enables_row_level_security() {
    run(async {
        let site = Site::owned("createrole").await;
        let app = site.start("auto").await;
        assert_stands(&app);
        use_it(&app, "first").await;
    });
}

#[test]
fn a_user_who_may_not_create_roles_gets_a_warning_and_serves_without_row_level_security() {
    run(async {
        let site = Site::owned("").await;
        let mut app = site.start("auto").await;
        assert!(text(&last_log(&app, NOT_ENFORCED).unwrap()["error"]).contains("permission denied"));
        use_it(&app, "first").await;
        site.heed(&app).await;
        app.restart().await;
        assert!(last_log(&app, ENFORCED).is_some());
        use_it(&app, "second").await;
    });
}

#[test]
fn a_user_who_does_not_own_the_tables_is_confined_once_granted_the_role() {
    run(async {
        let site = Site::new("").await;
        let mut owner = App::on_database(launch().config(tenants()), site.database.clone()).await;
        assert_stands(&owner);
        owner.server.terminate().await.unwrap();
        site.ask(&format!("grant all on all tables in schema public to {}", site.user)).await;

        let mut app = site.start("manual").await;
        use_it(&app, "first").await;
        let role =
            site.ask("select distinct roles[1] from pg_policies where policyname = 'one_tenant'").await;
        site.ask(&format!("grant {} to {}", role.concat(), site.user)).await;
        assert!(text(&last_log(&app, NOT_ENFORCED).unwrap()["remedy"]).contains(&role.concat()));
        app.restart().await;
        assert!(last_log(&app, ENFORCED).is_some());
        use_it(&app, "second").await;
    });
}

#[test]
fn a_schema_named_after_the_user_is_found_under_row_level_security() {
    run(async {
        let site = Site::owned("createrole").await;
        site.ask(&format!("create schema authorization {}", site.user)).await;
        let app = site.start("auto").await;
        assert_stands(&app);
        use_it(&app, "first").await;
        let schemas = site.ask("select distinct schemaname from pg_policies").await;
        assert_eq!(schemas, [site.user.as_str()]);
    });
}

#[test]
fn without_tenants_row_level_security_is_off() {
    run(async {
        let site = Site::new("").await;
        let app = App::on_database(launch(), site.database.clone()).await;
        app.post("/clusters").json(&cluster("first", &json!({}))).await.expect_status(201);
        assert!(last_log(&app, ENFORCED).is_none() && last_log(&app, NOT_ENFORCED).is_none());
        let secured = site.ask("select relname from pg_class where relrowsecurity").await;
        assert_eq!(secured, [""; 0]);
        let roles = "select rolname from pg_roles, pg_database
                     where datname = current_database() and rolname like 'hyperfleet_tenant_' || pg_database.oid || '_%'";
        assert_eq!(site.ask(roles).await, [""; 0]);
    });
}
