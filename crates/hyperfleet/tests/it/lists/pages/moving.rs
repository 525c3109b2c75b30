//! Lists that change while they are paged: a remaining resource comes once, a deleted one does not, and a new one comes
//! if it is still ahead.

use std::collections::BTreeMap;

use super::*;

/// Where a resource stands in an order by one member.
fn place(item: &Value, field: &str) -> (String, String) {
    (text(&item[field]).to_owned(), id(item).to_owned())
}

/// Walks the networks by threes; `meanwhile` happens before each page but the first. Every page must be what stands
/// behind the last one shown, in the list as it is then.
async fn walked_while(app: &App, field: &str, way: &str, meanwhile: impl AsyncFn(usize)) -> Vec<Value> {
    let order = format!("orderBy={field}%20{way}");
    let descending = way == "desc";
    let mut shown: Vec<Value> = Vec::new();
    let mut path = format!("/networks?{order}");
    for number in 0.. {
        if number > 0 {
            meanwhile(number).await;
        }
        let now = app.get(&format!("/networks?pageSize=500&{order}")).await.expect_status(200).json();
        let list = app.get(&format!("{path}&pageSize=3")).await.expect_status(200).json();
        let boundary = shown.last().map(|last| place(last, field));
        let ahead: Vec<Value> = now["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| {
                boundary.as_ref().is_none_or(|b| {
                    if descending { place(item, field) < *b } else { place(item, field) > *b }
                })
            })
            .cloned()
            .collect();
        let expected = &ahead[..ahead.len().min(3)];
        assert_eq!(
            names(list["items"].as_array().unwrap()),
            names(expected),
            "page {number} by {field} {way}"
        );
        assert_eq!(list["total"], now["total"], "page {number} by {field} {way}");
        shown.extend(list["items"].as_array().unwrap().clone());
        match next("/networks", &list) {
            Some(further) => path = further,
            None => {
                assert!(ahead.len() <= 3);
                return shown;
            }
        }
        assert!(ahead.len() > 3);
    }
    shown
}

async fn each_remaining_resource_is_listed_once_while_others_come_and_go(app: &App) {
    for (field, way) in [
        ("name", "asc"),
        ("name", "desc"),
        ("created_time", "asc"),
        ("created_time", "desc"),
        ("id", "asc"),
        ("id", "desc"),
        ("href", "desc"),
        ("updated_time", "asc"),
    ] {
        let mut made = BTreeMap::new();
        for number in 1..=12 {
            let name = format!("n{number:02}0");
            made.insert(name.clone(), app.create_named("/networks", "Network", &name).await);
        }
        // The third in the order, where the first page ends, whichever way it goes; and its neighbours.
        let [before, boundary, behind] =
            if way == "asc" { ["n010", "n030", "n040"] } else { ["n120", "n100", "n090"] };
        let shown = walked_while(app, field, way, async |page| match page {
            1 => {
                for gone in [before, boundary, behind] {
                    app.remove(&made[gone]).await;
                }
                // Its name may be given again: that is another resource.
                for new in [boundary, "n005", "n031", "n095", "n125"] {
                    app.create_named("/networks", "Network", new).await;
                }
            }
            2 => {
                app.remove(&made["n060"]).await;
                app.create_named("/networks", "Network", "n065").await;
            }
            _ => drop(app.merge(&made["n050"], &json!({"labels": {"page": page.to_string()}})).await),
        })
        .await;
        let count = |name: &str| shown.iter().filter(|item| item["id"] == made[name]["id"]).count();
        for name in ["n020", "n070", "n080", "n110"] {
            assert_eq!(count(name), 1, "{name} by {field} {way}: {:?}", names(&shown));
        }
        let all = app.get("/networks?pageSize=500").await.expect_status(200).json();
        for network in all["items"].as_array().unwrap() {
            app.remove(network).await;
        }
    }
}

/// Deletions give a resource the very field that it is sorted by.
async fn a_resource_that_becomes_finalizing_moves_no_other(app: &App) {
    for way in ["asc", "desc"] {
        for (field, size) in [("deleted_time", 2), ("deleted_by", 2), ("deleted_time", 1)] {
            let mut made = Vec::new();
            for number in 0..8 {
                made.push(
                    app.create_cluster(&format!("{way}-{field}-{size}-{number}").replace('_', "-")).await,
                );
            }
            app.remove(&made[6]).await;
            app.remove(&made[7]).await;
            let path = format!("/clusters?showDeleted=true&orderBy={field}%20{way}&pageSize={size}");
            let mut list = app.get(&path).await.expect_status(200).json();
            let mut shown = list["items"].as_array().unwrap().clone();
            let mut going = made[..6].iter().step_by(2).cloned().collect::<Vec<_>>();
            while let Some(path) = next("/clusters", &list) {
                if let Some(cluster) = going.pop() {
                    app.remove(&cluster).await;
                }
                list = app.get(&format!("{path}&pageSize={size}")).await.expect_status(200).json();
                shown.extend(list["items"].as_array().unwrap().clone());
            }
            for number in [1, 3, 5, 6, 7] {
                let count = shown.iter().filter(|item| item["id"] == made[number]["id"]).count();
                assert_eq!(count, 1, "{number} of {:?} by {field} {way}", names(&shown));
            }
            let all = app.get("/clusters?showDeleted=true&pageSize=500").await.expect_status(200).json();
            for cluster in all["items"].as_array().unwrap() {
                app.remove(cluster).await;
                app.force_delete(cluster).await;
            }
        }
    }
}

async fn a_search_continues_after_its_boundary_stopped_matching(app: &App) {
    let mut made = Vec::new();
    for number in 0..7 {
        let labels = json!({"env": "dev"});
        let body = json!({"kind": "Network", "name": format!("n{number}"), "spec": {}, "labels": labels});
        made.push(app.create("/networks", &body).await);
    }
    for order in ["name", "created_time", "generation,name"] {
        let path = format!("{}&pageSize=3&orderBy={order}", searched("/networks", "labels.env = 'dev'"));
        let first = app.get(&path).await.expect_status(200).json();
        assert_eq!(names(first["items"].as_array().unwrap()), ["n0", "n1", "n2"]);
        app.merge(&made[2], &json!({"labels": {"env": "prod"}})).await;
        let second =
            app.get(&format!("{}&pageSize=3", next("/networks", &first).unwrap())).await.expect_status(200);
        let second = second.json();
        assert_eq!(names(second["items"].as_array().unwrap()), ["n3", "n4", "n5"], "{order}");
        assert_eq!(second["total"], 6);
        app.merge(&made[2], &json!({"labels": {"env": "dev"}})).await;
    }
}

async fn a_page_is_empty_when_the_rest_of_the_list_is_gone(app: &App) {
    let mut made = Vec::new();
    for number in 0..4 {
        made.push(app.create_named("/networks", "Network", &format!("n{number}")).await);
    }
    let first = app.get("/networks?pageSize=2&orderBy=name").await.expect_status(200).json();
    let path = next("/networks", &first).unwrap();
    for (gone, total) in [(&made[2..], 2), (&made[..2], 0)] {
        for network in gone {
            app.remove(network).await;
        }
        let list = app.get(&path).await.expect_status(200).json();
        assert_eq!(
            (&list["items"], &list["total"], list.get("next_page_token")),
            (&json!([]), &json!(total), None)
        );
    }
}

both_stores!(
    config = CATALOG;
    each_remaining_resource_is_listed_once_while_others_come_and_go,
    a_resource_that_becomes_finalizing_moves_no_other,
    a_search_continues_after_its_boundary_stopped_matching,
    a_page_is_empty_when_the_rest_of_the_list_is_gone,
);
