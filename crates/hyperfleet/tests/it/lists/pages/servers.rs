//! A page token works after a restart and on every server of the database.

use std::sync::Arc;

use hyperfleet_testkit::Postgres;

use super::*;

async fn a_page_token_outlives_its_server(app: &mut App) {
    filled(app).await;
    let lists = [
        "/resources?showDeleted=true&orderBy=deleted_time",
        "/clusters?orderBy=name",
        &searched("/networks", "name < 'c'"),
    ];
    let mut pages = Vec::new();
    for list in lists {
        let (route, query) = list.split_once('?').unwrap();
        let first = app.get(&format!("{route}?{query}&pageSize=1")).await.expect_status(200).json();
        let path = next(route, &first).unwrap();
        let second = app.get(&path).await.expect_status(200).json();
        pages.push((path, second));
    }
    for ending in ["asked to", "killed", "asked to"] {
        if ending == "killed" {
            app.server.kill9();
        }
        app.restart().await;
        for (path, page) in &pages {
            assert_eq!(&app.get(path).await.expect_status(200).json(), page, "{ending}: {path}");
        }
    }
}

#[test]
fn a_page_token_works_on_every_server_of_the_database() {
    run(async {
        let database = Arc::new(Postgres::shared().database().await);
        let launch = launch().config(CATALOG);
        // Both start on an empty database at once: whichever comes first, they agree on what tokens are.
        let (one, other) = tokio::join!(
            App::on_database(launch.clone(), Arc::clone(&database)),
            App::on_database(launch, Arc::clone(&database))
        );
        filled(&one).await;
        let servers = [&one, &other];
        let query = "showDeleted=true&orderBy=owner_id%20desc,name";
        let mut list = one.get(&format!("/resources?{query}&pageSize=2")).await.expect_status(200).json();
        let mut seen = list["items"].as_array().unwrap().clone();
        let mut turn = 0;
        while let Some(path) = next("/resources", &list) {
            turn += 1;
            list = servers[turn % 2].get(&format!("{path}&pageSize=2")).await.expect_status(200).json();
            seen.extend(list["items"].as_array().unwrap().clone());
        }
        let whole = other.get(&format!("/resources?{query}&pageSize=500")).await.expect_status(200).json();
        assert_eq!(seen, *whole["items"].as_array().unwrap());
        assert!(turn > 5);
    });
}

both_stores!(config = CATALOG; a_page_token_outlives_its_server);
