//! Watches of several kinds and of one owner's children, and commits that change several objects.

use super::*;

both_stores!(
    config = CATALOG;
    all_kinds_or_one_kind_can_be_watched,
    a_watch_below_an_owner_sends_only_its_children,
    a_wrong_owner_is_not_found,
    each_object_of_a_commit_has_a_version_and_an_event,
    a_force_delete_ends_every_object_of_the_tree,
    the_last_report_ends_a_child_and_its_waiting_owner,
    a_nested_child_is_sent_as_it_is_read,
);

/// A Zone with Racks and Hosts: names, and the resources.
async fn zone(app: &App, name: &str) -> (Value, Vec<Value>, Vec<Value>) {
    let zone = app.create_named("/zones", "Zone", name).await;
    let (mut racks, mut hosts) = (Vec::new(), Vec::new());
    for number in 0..2 {
        let rack =
            app.create_named(&format!("{}/racks", href(&zone)), "Rack", &format!("{name}-r{number}")).await;
        for host in 0..2 {
            let path = format!("{}/hosts", href(&rack));
            hosts.push(app.create_named(&path, "Host", &format!("{name}-r{number}-h{host}")).await);
        }
        racks.push(rack);
    }
    (zone, racks, hosts)
}

async fn all_kinds_or_one_kind_can_be_watched(app: &App) {
    let mut live = app.watch("/resources").await;
    let mut racks = app.watch("/resources?kind=Rack").await;
    let mut flat = app.watch("/racks").await;
    for stream in [&mut live, &mut racks, &mut flat] {
        assert_eq!(stream.until_bookmark().await, (vec![], 0));
    }
    zone(app, "z").await;
    let names = ["z", "z-r0", "z-r0-h0", "z-r0-h1", "z-r1", "z-r1-h0", "z-r1-h1"].map(|name| ("ADDED", name));
    let (present, _) = app.watch("/resources").await.until_bookmark().await;
    assert_eq!(named(&present), names);
    let told = events_of(&mut live, names.len()).await;
    assert_eq!(told, present, "who watches is told the same");
    let of_racks = [names[1], names[4]];
    for (stream, path) in [(&mut racks, "/resources?kind=Rack"), (&mut flat, "/racks")] {
        assert_eq!(named(&events_of(stream, 2).await), of_racks, "{path}");
        assert_eq!(named(&app.watch(path).await.until_bookmark().await.0), of_racks, "{path}");
    }
}

async fn a_watch_below_an_owner_sends_only_its_children(app: &App) {
    let (one, racks, _) = zone(app, "one").await;
    let (other, ..) = zone(app, "other").await;
    let mut stream = app.watch(&format!("{}/racks", href(&one))).await;
    let (present, _) = stream.until_bookmark().await;
    assert_eq!(named(&present), [("ADDED", "one-r0"), ("ADDED", "one-r1")]);
    let mut hosts = app.watch(&format!("{}/racks/{}/hosts?since=0", href(&one), id(&racks[1]))).await;
    let told = events_of(&mut hosts, 2).await;
    assert_eq!(named(&told), [("ADDED", "one-r1-h0"), ("ADDED", "one-r1-h1")]);

    app.create_named(&format!("{}/racks", href(&other)), "Rack", "foreign").await;
    app.create_named(&format!("{}/hosts", href(&racks[0])), "Host", "foreign").await;
    let rack = app.create_named(&format!("{}/racks", href(&one)), "Rack", "new").await;
    assert_eq!(stream.change().await.object(), &rack);
    let host = app.create_named(&format!("{}/hosts", href(&racks[1])), "Host", "new").await;
    assert_eq!(hosts.change().await.object(), &host);
}

async fn a_wrong_owner_is_not_found(app: &App) {
    let (one, racks, _) = zone(app, "one").await;
    let (other, ..) = zone(app, "other").await;
    let unknown = "0198c0de-0000-7abc-8def-00000000000f";
    for path in [
        format!("/zones/{unknown}/racks"),
        format!("/zones/{}/racks", id(&racks[0])),
        format!("{}/racks/{unknown}/hosts", href(&one)),
        format!("{}/racks/{}/hosts", href(&other), id(&racks[0])),
        format!("/zones/{unknown}/racks?since=0"),
    ] {
        app.get(&watched(&path)).await.expect_status(404);
    }
    app.watch(&format!("{}/racks/{}/hosts", href(&one), id(&racks[0]))).await;
}

async fn each_object_of_a_commit_has_a_version_and_an_event(app: &App) {
    let (zone, racks, hosts) = zone(app, "z").await;
    let before = newest(app).await;
    let mut stream = app.watch(&format!("/resources?showDeleted=true&since={before}")).await;
    app.remove(&zone).await;
    let told = events_of(&mut stream, 7).await;
    let expected: Vec<u64> = (before + 1..=before + 7).collect();
    assert_eq!(versions(&told), expected, "one after the other");
    let mut ids: Vec<_> = told.iter().map(|event| id(event.object()).to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 7, "each object once");
    for event in &told {
        assert_eq!(event.kind(), "MODIFIED");
        assert_eq!(event.object(), &app.read(event.object()).await);
        assert_eq!(event.version(), version(app, event.object()).await);
    }
    for resource in racks.iter().chain(&hosts) {
        assert!(ids.contains(&id(resource).to_owned()));
    }
    // In the middle of the commit is a place to go on from.
    for (behind, event) in told.iter().enumerate() {
        let mut stream = app.watch(&format!("/resources?showDeleted=true&since={}", event.version())).await;
        assert_eq!(events_of(&mut stream, 6 - behind).await, told[behind + 1..]);
    }
}

async fn a_force_delete_ends_every_object_of_the_tree(app: &App) {
    let (zone, racks, _) = zone(app, "z").await;
    app.remove(&zone).await;
    let before = newest(app).await;
    let mut all = app.watch(&format!("/resources?showDeleted=true&since={before}")).await;
    let mut hosts =
        app.watch(&format!("{}/racks/{}/hosts?showDeleted=true", href(&zone), id(&racks[0]))).await;
    let present = app.watch("/resources?showDeleted=true").await.until_bookmark().await.0;
    assert_eq!(hosts.until_bookmark().await.0.len(), 2);
    app.force_delete(&zone).await;
    let told = events_of(&mut all, 7).await;
    assert_eq!(versions(&told), (before + 1..=before + 7).collect::<Vec<_>>());
    for event in &told {
        assert_eq!(event.kind(), "DELETED");
        let last = present.iter().find(|there| there.object()["id"] == event.object()["id"]).unwrap();
        assert_eq!(event.object(), last.object(), "as it was last");
    }
    let ended = events_of(&mut hosts, 2).await;
    assert!(ended.iter().all(|event| told.contains(event)));
    // Gone ones are told again to who asks for the past.
    let mut stream = app.watch(&format!("/resources?showDeleted=true&since={before}")).await;
    assert_eq!(events_of(&mut stream, 7).await, told);
    assert_eq!(app.watch("/resources?showDeleted=true").await.until_bookmark().await, (vec![], before + 7));
}

async fn the_last_report_ends_a_child_and_its_waiting_owner(app: &App) {
    let zone = app.create_named("/zones", "Zone", "z").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "r").await;
    let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", "h").await;
    app.remove(&zone).await;
    let before = newest(app).await;
    let mut stream = app.watch(&format!("/resources?showDeleted=true&since={before}")).await;
    app.report(&host, &finalized("imager", 2, &at(0))).await.expect_status(201);
    let next = app.create_named("/zones", "Zone", "next").await;
    let mut told = Vec::new();
    loop {
        let event = stream.change().await;
        if event.object()["id"] == next["id"] {
            break;
        }
        told.push(event);
    }
    assert_eq!(versions(&told), (before + 1..before + 1 + told.len() as u64).collect::<Vec<_>>());
    let ends: Vec<_> = told.iter().filter(|event| event.kind() == "DELETED").collect();
    assert_eq!(ends.len(), 3, "{told:?}");
    for resource in [&zone, &rack, &host] {
        let last = told.iter().rfind(|event| event.object()["id"] == resource["id"]).unwrap();
        assert_eq!(last.kind(), "DELETED", "nothing comes after its end");
    }
}

async fn a_nested_child_is_sent_as_it_is_read(app: &App) {
    let (_, _, hosts) = zone(app, "z").await;
    let (present, _) = app.watch("/hosts").await.until_bookmark().await;
    for (event, host) in present.iter().zip(&hosts) {
        assert_eq!(event.object(), host);
    }
    let mut stream = app.watch("/hosts").await;
    assert_eq!(stream.until_bookmark().await.0.len(), hosts.len());
    let network = app.create_named("/networks", "Network", "net").await;
    let body = json!({"kind": "Service", "name": "svc", "spec": {}, "references": {"networks": [{"id": id(&network)}]}});
    let mut services = app.watch("/services?since=0").await;
    let service = app.create("/services", &body).await;
    assert_eq!(services.change().await.object(), &service, "with its references");
    let other = app.create_named("/networks", "Network", "other").await;
    let patch = json!({"references": {"networks": [{"id": id(&other)}]}});
    let changed = app.merge(&service, &patch).await;
    let event = services.change().await;
    assert_eq!((event.kind(), event.object()), ("MODIFIED", &changed));
    let gone = app.remove(&service).await;
    let event = services.change().await;
    assert_eq!((event.kind(), event.object()), ("DELETED", &gone));
    // The past is told as it was.
    let mut past = app.watch("/services?since=0").await;
    let told = events_of(&mut past, 3).await;
    assert_eq!(told.iter().map(Event::object).collect::<Vec<_>>(), [&service, &changed, &gone]);
}
