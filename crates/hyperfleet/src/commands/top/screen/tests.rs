use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::model;
use super::*;

fn drawn(view: &View, controls: &Controls, trouble: Option<&str>) -> String {
    drawn_in(100, view, controls, trouble)
}

fn drawn_in(columns: u16, view: &View, controls: &Controls, trouble: Option<&str>) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, 17)).unwrap();
    let context = ScreenContext {
        server: "http://localhost:8000",
        trouble: trouble.map(str::to_owned),
        colours: false,
    };
    terminal.draw(|frame| draw(frame, view, controls, &context)).unwrap();
    terminal.backend().to_string()
}

fn view() -> View {
    let mut history = vec![0; model::HISTORY];
    history[55..].copy_from_slice(&[1, 2, 3, 2, 4]);
    View {
        total: 10,
        kinds: vec![("Cluster".to_owned(), 7), ("NodePool".to_owned(), 3)],
        phases: [6, 1, 2, 0, 1],
        rate: 1.2,
        history,
        rows: vec![model::Row {
            kind: "NodePool".to_owned(),
            name: "prod\u{1b}[2J/workers".to_owned(),
            phase: ReconciliationPhase::Stuck,
            generation: 4,
            lasts: Duration::from_secs(754),
            why: "dns: ZoneNotDelegated".to_owned(),
        }],
        matching: 4,
        adapters: vec![model::Adapter { name: "dns".to_owned(), failing: 2, setbacks: 5 }],
        is_complete: true,
    }
}

#[test]
fn a_view_is_one_screen_and_nothing_in_it_acts_on_the_terminal() {
    let screen = drawn(&view(), &Controls::default(), None);
    let parts = [
        "10 resources  7 Cluster, 3 NodePool  http://localhost:8000",
        "● Degraded 2",
        "1.2 changes/s",
        "dns 2 (+5)",
        "NodePool",
        "Stuck",
        "12m",
        "1/4",
    ];
    for part in parts {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    assert!(screen.contains("prod\\u{1b}[2J/workers") && !screen.contains('\u{1b}'), "{screen}");
}

#[test]
fn a_lost_connection_a_pause_and_a_filter_show() {
    let controls = Controls { paused: true, typing: true, ..Controls::default() };
    let screen = drawn(&view(), &controls, Some("refused"));
    for part in ["NOT CONNECTED  PAUSED", "refused", "filter: ▏"] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
}

#[test]
fn eighty_columns_show_every_phase_and_why_there_is_no_connection() {
    let large = View { phases: [80_000, 12_345, 10_000, 98_765, 54_321], ..view() };
    let reason = "GET https://fleet.example.com/api/hyperfleet/v1/resources cannot be reached: client error \
                  (Connect): tcp connect error: Connection refused (os error 111)";
    let screen = drawn_in(80, &large, &Controls::default(), Some(reason));
    for part in
        ["NOT CONNECTED", "Connection refused (os error 111)", "● Reconciled 80000", "● Stuck 54321", "prod"]
    {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    let small = drawn_in(80, &view(), &Controls::default(), None);
    assert!(small.contains("● Finalizing 0  ● Stuck 1"), "one line, as long as it fits\n{small}");
    let narrow = drawn_in(30, &large, &Controls::default(), None);
    assert!(narrow.contains("● Stuck 54321") && narrow.contains("1/4"), "{narrow}");
}

#[test]
fn a_fleet_without_trouble_says_so() {
    let view = View { rows: Vec::new(), matching: 0, ..view() };
    assert!(drawn(&view, &Controls::default(), None).contains("everything is reconciled"));
}
