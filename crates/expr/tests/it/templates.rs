//! Go templates: what they render to, which are refused, and that they end.

use hyperfleet_expr::{Template, unknown};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::cases;

/// 2026-11-05T09:08:07.0605Z.
const NOW: i64 = 1_793_869_687_060_500;

fn render(source: &str, scope: &Value) -> Result<String, String> {
    let template = Template::compile(source).unwrap_or_else(|fault| panic!("{source}: {fault}"));
    template.render(scope.as_object().unwrap(), NOW)
}

fn all_render(scope: &Value, cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(render(source, scope).as_deref(), Ok(*expected), "{source}");
    }
}

fn all_fail(scope: &Value, cases: &[(&str, &str)]) {
    for (source, message) in cases {
        assert_eq!(render(source, scope), Err((*message).to_owned()), "{source}");
    }
}

#[test]
fn text_without_actions_is_plain() {
    for source in ["", "plain", "a }} b", "{ {x} }", "é\n"] {
        let template = Template::compile(source).unwrap();
        assert!(template.is_plain() && template.names().is_empty(), "{source}");
        assert_eq!(template.render(&Map::new(), NOW).as_deref(), Ok(source));
    }
    assert!(!Template::compile("{{ .a }}").unwrap().is_plain());
}

#[test]
fn values_are_printed() {
    let scope = json!({
        "int": 1_000_000, "large": u64::MAX, "small": i64::MIN, "real": 1.5, "whole": 1000000.0, "yes": true, "nil": null,
        "text": "a b", "list": [1, "x", null, [2.5]], "map": {"b": 1, "a": {"c": "d"}}, "token": "s3cret",
    });
    all_render(
        &scope,
        &[
            ("{{ .int }} {{.large}} {{.small}}", "1000000 18446744073709551615 -9223372036854775808"),
            ("{{ .real }} {{ .whole }} {{ .yes }} {{ .nil }}", "1.5 1000000 true <no value>"),
            ("x-{{ .text }}-{{ .list }}-{{ .map }}", "x-a b-[1 x <nil> [2.5]]-map[a:map[c:d] b:1]"),
            ("{{ .map.a.c }}{{ (.map).a }}{{ $.map.b }}", "dmap[c:d]1"),
            ("{{ .token }}", "s3cret"),
            (
                "{{ 12 }} {{ 1.5 }} {{ true }} {{ \"q\" }} {{ `r` }} {{ 0x10 }} {{ 'a' }}",
                "12 1.5 true q r 16 97",
            ),
            ("a {{- .int -}} b {{/* gone */}}c", "a1000000b c"),
        ],
    );
    let numbers: Value =
        serde_json::from_str(r#"{"a": 1e21, "b": 0.0000001, "c": 123456789.5, "d": 1e400, "e": 10.0}"#)
            .unwrap();
    all_render(&numbers, &[("{{.a}} {{.b}} {{.c}} {{.d}} {{.e}}", "1e+21 1e-07 123456789.5 +Inf 10")]);
}

#[test]
fn blocks_choose_and_repeat() {
    let scope = json!({
        "yes": true, "no": false, "zero": 0, "empty": "", "items": ["a", "b", "c"], "none": [], "nil": null,
        "map": {"y": 2, "x": 1}, "deep": {"name": "n"}, "count": 3,
    });
    all_render(
        &scope,
        &[
            ("{{if .yes}}1{{else}}2{{end}}{{if .zero}}1{{else if .empty}}2{{else}}3{{end}}", "13"),
            (
                "{{range .items}}[{{.}}]{{end}}{{range .none}}x{{else}}none{{end}}{{range .nil}}x{{else}}nil{{end}}",
                "[a][b][c]nonenil",
            ),
            ("{{range $i, $v := .items}}{{$i}}{{$v}}{{end}}{{range $v := .items}}{{$v}}{{end}}", "0a1b2cabc"),
            ("{{range $k, $v := .map}}{{$k}}={{$v}};{{end}}", "x=1;y=2;"),
            (
                "{{range .count}}{{.}}{{end}}{{range $i := 2}}{{$i}}{{end}}{{range 0}}x{{else}}e{{end}}",
                "01201e",
            ),
            ("{{range .items}}{{if eq . \"b\"}}{{continue}}{{end}}{{.}}{{end}}", "ac"),
            ("{{range .items}}{{if eq . \"b\"}}{{break}}{{end}}{{.}}{{end}}", "a"),
            ("{{range .items}}{{range $.items}}{{break}}{{end}}{{.}}{{end}}", "abc"),
            ("{{with .deep}}{{.name}}{{$.count}}{{end}}{{with .empty}}x{{else}}e{{end}}", "n3e"),
            ("{{with $d := .deep}}{{$d.name}}{{end}}{{with .no}}x{{else with .deep}}{{.name}}{{end}}", "nn"),
            ("{{$x := 1}}{{if .yes}}{{$x = 2}}{{end}}{{$x}}{{if .yes}}{{$x := 3}}{{$x}}{{end}}{{$x}}", "232"),
            ("{{$n := 0}}{{range $i, $v := .items}}{{$n = $i}}{{end}}{{$n}}", "2"),
            ("{{define \"t\"}}<{{.name}}>{{end}}{{template \"t\" .deep}}{{template \"t\" $.deep}}", "<n><n>"),
            ("{{define \"t\"}}{{.}}{{end}}{{template \"t\"}}", "<no value>"),
            ("{{block \"b\" .deep}}{{.name}}{{end}}", "n"),
            (
                "{{define \"loop\"}}{{if .}}{{.}}{{template \"loop\" slice . 1}}{{end}}{{end}}{{template \"loop\" \"abc\"}}",
                "abcbcc",
            ),
            ("{{if and .yes .items}}1{{end}}{{if or .no .zero}}2{{end}}{{if not .no}}3{{end}}", "13"),
            ("{{if or .yes .missing}}1{{end}}{{if and .no .missing}}2{{end}}{{or .empty \"d\"}}", "1d"),
        ],
    );
}

#[test]
fn functions_of_the_language() {
    let scope = json!({
        "a": 1, "b": 2, "real": 1.0, "s": "text", "l": ["x", "y"], "m": {"k-1": "v", "n": {"o": 3}}, "nil": null,
        "html": "<a href=\"x\">'&'</a>",
    });
    all_render(
        &scope,
        &[
            (
                "{{eq .a 1}} {{eq .a 2 1}} {{eq .a .real}} {{ne .s \"x\"}} {{eq .nil nil}} {{eq .s nil}}",
                "true true true true true false",
            ),
            (
                "{{lt .a .b}} {{le .a 1}} {{gt .s \"a\"}} {{ge 1.5 .b}} {{lt .a 1.5}}",
                "true true true false true",
            ),
            ("{{len .s}} {{len .l}} {{len .m}} {{.l | len}}", "4 2 2 2"),
            (
                "{{index .l 1}} {{index .m \"k-1\"}} {{index .m \"n\" \"o\"}} {{index .m \"none\"}} {{index .s 0}}",
                "y v 3 <no value> 116",
            ),
            ("{{slice .s 1}} {{slice .s 1 3}} {{slice .l 1}} {{slice .l}}", "ext ex [y] [x y]"),
            ("{{print 1 2 \"a\" \"b\" 3}} {{println 1 \"a\"}}|{{print}}|{{println}}", "1 2ab3 1 a\n||\n"),
            (
                "{{printf \"%s-%d|%5.2f|%-4s|%04d|%x|%q|%v|%t|%%\" .s 7 1.5 \"a\" 42 255 .s .l true}}",
                "text-7| 1.50|a   |0042|ff|\"text\"|[x y]|true|%",
            ),
            (
                "{{printf \"%s\" .a}}|{{.s | printf \"%s:%s\" \"k\"}}|{{printf \"%v\" .m}}",
                "%!s(int=1)|k:text|map[k-1:v n:map[o:3]]",
            ),
            ("{{html .html}}", "&lt;a href=&#34;x&#34;&gt;&#39;&amp;&#39;&lt;/a&gt;"),
            ("{{urlquery \"a b&c\" 1}} {{js \"it's\"}}", "a+b%26c1 it\\'s"),
            ("{{(index .l 0) | printf \"%s!\"}}{{(print .a .b)}}", "x!1 2"),
        ],
    );
    all_fail(
        &scope,
        &[
            ("{{eq .s 1}}", "line 1, column 3: string and int cannot be compared"),
            ("{{eq .l .l}}", "line 1, column 3: list and list cannot be compared"),
            ("{{lt .s 1}}", "line 1, column 3: string and int cannot be compared"),
            ("{{len .a}}", "line 1, column 3: len does not take int"),
            ("{{index .l 2}}", "line 1, column 3: there is nothing at that index"),
            ("{{index .l -1}}", "line 1, column 3: there is nothing at that index"),
            ("{{index .a 1}}", "line 1, column 3: index does not take int, int"),
            ("{{slice .s 3 1}}", "line 1, column 3: there is no such part"),
            ("{{slice .l 0 3}}", "line 1, column 3: there is no such part"),
            (
                "{{range $i, $v := .a}}{{end}}",
                "line 1, column 3: a loop over a whole number has one variable",
            ),
            ("{{printf .a}}", "line 1, column 3: printf does not take int"),
            (
                "{{range .s}}{{end}}",
                "line 1, column 3: range goes over a list, a map or a whole number, not string",
            ),
        ],
    );
}

#[test]
fn functions_of_task_files() {
    let scope = json!({"id": "Cluster-1", "n": 5, "real": 2.9, "nil": null, "empty": "", "text": " x ", "yes": true, "q": "a\"b\n"});
    all_render(
        &scope,
        &[
            ("{{ .id | lower }} {{ upper .id }} {{ trim .text }}|", "cluster-1 CLUSTER-1 x|"),
            ("{{ title \"hello-world OF don't foo_bar a.b x y\" }}", "Hello-World Of Don't Foo_bar A.b X Y"),
            (
                "{{ replace \"a-b-c\" \"-\" \".\" }} {{ contains .id \"ust\" }} {{ hasPrefix .id \"Clu\" }} {{ hasSuffix .id \"2\" }}",
                "a.b.c true true false",
            ),
            (
                "{{ .nil | default \"d\" }} {{ .empty | default \"d\" }} {{ .n | default 1 }} {{ false | default true }}",
                "d d 5 false",
            ),
            ("{{ quote .q }} {{ \"x\" | quote }}", "\"a\\\"b\\n\" \"x\""),
            (
                "{{ int .real }} {{ int \"12\" }} {{ int \"x\" }} {{ int .nil }} {{ int64 .n }} {{ int .yes }}",
                "2 12 0 0 5 0",
            ),
            (
                "{{ float64 .n }} {{ float64 \"1.5\" }} {{ float64 \"x\" }} {{ string .n }}{{ string .yes }} {{ string .nil }}",
                "5 1.5 0 5true <nil>",
            ),
        ],
    );
    all_fail(
        &scope,
        &[
            ("{{ lower .n }}", "line 1, column 4: lower does not take int"),
            ("a\n{{ .n | quote }}", "line 2, column 9: quote does not take int"),
            ("{{ date \"2006\" .id }}", "line 1, column 4: date does not take string, string"),
        ],
    );
}

#[test]
fn times_follow_layouts_of_go() {
    for (layout, expected) in [
        ("2006-01-02T15:04:05Z07:00", "2026-11-05T09:08:07Z"),
        ("2006-01-02T15:04:05Z", "2026-11-05T09:08:07Z"),
        ("Mon, 02 Jan 2006 15:04:05 MST", "Thu, 05 Nov 2026 09:08:07 UTC"),
        ("Monday, January 2, 2006 at 3:04pm", "Thursday, November 5, 2026 at 9:08am"),
        ("Jan _2 06 03:4:5 PM", "Nov  5 26 09:8:7 AM"),
        ("15:04:05.000 .999 ,000000 .9999999", "09:08:07.060 .06 ,060500 .0605"),
        ("05.00x .0001", "07.06x .0011"),
        ("-0700 -07:00 -07 Z0700", "+0000 +00:00 +00 Z"),
        ("002 __2 1/2", "309 309 11/5"),
        ("20060102", "20261105"),
        ("Month Jansky Mon", "Month Jansky Thu"),
        ("é plain", "é plain"),
    ] {
        let source = format!("{{{{ now | date {} }}}}", Value::from(layout));
        assert_eq!(render(&source, &json!({})).as_deref(), Ok(expected), "{layout}");
    }
    all_render(
        &json!({}),
        &[
            (
                "{{ dateFormat \"2006\" now }} {{ now.Unix }} {{ now.UTC.Format \"01\" }} {{ (now).Format \"02\" }}",
                "2026 1793869687 11 05",
            ),
            (
                "{{ $t := now }}{{ $t.Format \"15\" }} {{ $t.UTC.Unix }} {{ now }}",
                "09 1793869687 2026-11-05 09:08:07.0605 +0000 UTC",
            ),
        ],
    );
    let fault = render("{{ now.Year }}", &json!({}));
    assert_eq!(fault, Err("line 1, column 4: a time has no .Year here".to_owned()));
    let long = format!("{{{{ now | date \"{}\" }}}}", "2".repeat(300));
    assert_eq!(
        render(&long, &json!({})),
        Err("line 1, column 10: a layout has at most 256 bytes".to_owned())
    );
}

#[test]
fn what_is_missing_is_an_error_with_its_place_and_without_values() {
    let scope = json!({"a": {"b": "hunter2"}, "nil": null, "list": ["hunter2"]});
    all_fail(
        &scope,
        &[
            ("x\n  {{ .missing }}", "line 2, column 6: nothing is known as .missing here"),
            ("{{ .a.c }}", "line 1, column 4: nothing is known as .c here"),
            ("{{ .a.b.c }}", "line 1, column 4: string has no member c"),
            ("{{ .nil.x }}", "line 1, column 4: there is no .x of nil"),
            ("{{ .list.x }}", "line 1, column 4: list has no member x"),
            ("{{ .missing | default \"d\" }}", "line 1, column 4: nothing is known as .missing here"),
            ("é{{ if .missing }}{{ end }}", "line 1, column 8: nothing is known as .missing here"),
            ("{{ range .list }}{{ .x }}{{ end }}", "line 1, column 21: string has no member x"),
        ],
    );
}

#[test]
fn faults_are_found_before_rendering() {
    for (source, fault) in [
        ("{{ .a", "line 1, column 6: unclosed action"),
        ("a\n{{ if .x }}b", "line 2, column 1: this {{if}} has no {{end}}"),
        ("{{ if .x }}{{ range .y }}{{ end }}", "line 1, column 1: this {{if}} has no {{end}}"),
        ("b{{ end }}c", "line 1, column 2: this {{end}} ends nothing"),
        ("b{{ else }}c", "line 1, column 2: this {{else}} belongs to no {{if}}, {{with}} or {{range}}"),
        (
            "{{define \"a\"}}{{else}}{{end}}",
            "line 1, column 15: this {{else}} belongs to no {{if}}, {{with}} or {{range}}",
        ),
        ("{{ uper .x }}", "line 1, column 4: unknown function 'uper'; did you mean upper?"),
        ("{{ .x | uper }}", "line 1, column 9: unknown function 'uper'; did you mean upper?"),
        ("{{ (uper .x) }}", "line 1, column 5: unknown function 'uper'; did you mean upper?"),
        ("{{ $y }}", "line 1, column 4: unknown variable $y"),
        ("{{ $y = 1 }}", "line 1, column 4: unknown variable $y"),
        ("{{ if .x }}{{ $y := 1 }}{{ end }}{{ $y }}", "line 1, column 37: unknown variable $y"),
        ("{{ $name := 1 }}{{ $nam }}", "line 1, column 20: unknown variable $nam; did you mean $name?"),
        ("{{ template \"t\" }}", "line 1, column 4: unknown template 't'"),
        (
            "{{define \"tail\"}}{{end}}{{ template \"tall\" }}",
            "line 1, column 28: unknown template 'tall'; did you mean tail?",
        ),
        (
            "{{define \"t\"}}a{{end}}{{define \"t\"}}b{{end}}",
            "line 1, column 25: template 't' is defined twice",
        ),
        (
            "{{define \"t\"}}{{ uper 1 }}{{end}}",
            "line 1, column 18: unknown function 'uper'; did you mean upper?",
        ),
        ("{{ lower }}", "line 1, column 4: lower takes 1 argument, not 0"),
        ("{{ .x | replace \"a\" }}", "line 1, column 9: replace takes 3 arguments, not 2"),
        ("{{ slice 1 2 3 4 }}", "line 1, column 4: slice takes 1 to 3 arguments, not 4"),
        ("{{ eq 1 }}", "line 1, column 4: eq takes at least 2 arguments, not 1"),
        ("{{ .x 1 }}", "line 1, column 4: only functions take arguments"),
        ("{{ 1 | 2 }}", "line 1, column 8: only functions take arguments"),
        ("{{ nil }}", "line 1, column 4: nil is no command"),
        ("{{ break }}", "line 1, column 4: {{break}} and {{continue}} stand in a {{range}}"),
        ("{{ }}", "line 1, column 6: empty command"),
        ("{{ .foo-bar }}", "line 1, column 8: unexpected character: '-'"),
    ] {
        let found = Template::compile(source).expect_err(source);
        assert_eq!(found.to_string(), fault, "{source}");
    }
    // What looks like a block inside of quotes or comments is none.
    for source in [
        "{{ \"{{ if }}\" }}",
        "{{/* {{ end }} */}}",
        "{{ `}}` }}{{- /* if */ -}}",
        "{{ \"\\\"}}\" }}",
        "{{ '\"' }}",
    ] {
        assert!(Template::compile(source).is_ok(), "{source}: {:?}", Template::compile(source));
    }
}

#[test]
fn what_a_template_reads_is_told_with_its_place() {
    for (source, expected) in [
        ("{{ .a.b }}-{{ .c | lower }}", vec![("a.b", 4), ("c", 15)]),
        (
            "{{ with .a }}{{ .b }}{{ $.c }}{{ else }}{{ .d }}{{ end }}",
            vec![("a", 9), ("a.b", 17), ("c", 25), ("d", 44)],
        ),
        ("{{ range .a }}{{ .b }}{{ $.c }}{{ end }}", vec![("a", 10), ("c", 26)]),
        ("{{ range $k, $v := .a }}{{ $v.x }}{{ $k }}{{ end }}", vec![("a", 20)]),
        ("{{ $x := .a.b }}{{ $x.c }}", vec![("a.b", 10), ("a.b.c", 20)]),
        ("{{ if eq .a .b }}{{ else if .c }}{{ end }}", vec![("a", 10), ("b", 13), ("c", 29)]),
        ("{{ (.a).b }}{{ (index .c 0).d }}", vec![("a", 5), ("a.b", 4), ("c", 23)]),
        (
            "{{ define \"t\" }}{{ .x }}{{ end }}{{ template \"t\" .a }}{{ template \"t\" . }}",
            vec![("a", 50), ("a.x", 20), ("x", 20)],
        ),
        ("{{ . }}{{ now }}{{ \"a\" }}", vec![]),
    ] {
        let template = Template::compile(source).unwrap();
        let mut found: Vec<_> =
            template.names().iter().map(|name| (name.path.join("."), name.column)).collect();
        let mut expected: Vec<_> =
            expected.into_iter().map(|(path, column)| (path.to_owned(), column)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{source}");
    }
    let template = Template::compile("a\n{{ .clusterld }}{{ .region }}").unwrap();
    let faults = unknown(template.names(), &["clusterId", "region"]);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["line 2, column 4: unknown name 'clusterld'; did you mean clusterId?"]);
}

#[test]
fn every_template_ends() {
    let scope = json!({"list": (0..200).collect::<Vec<_>>(), "text": "x".repeat(1 << 16)});
    let twice = |name: &str, next: &str| {
        format!("{{{{define \"{name}\"}}}}{{{{template \"{next}\"}}}}{{{{template \"{next}\"}}}}{{{{end}}}}")
    };
    let tower: String = (0..60).map(|i| twice(&format!("t{i}"), &format!("t{}", i + 1))).collect();
    for (source, message) in [
        (
            "{{define \"t\"}}{{template \"t\" .}}{{end}}{{template \"t\" .}}".to_owned(),
            "nested deeper than 100 levels",
        ),
        (format!("{}{{{{template \"a\"}}}}", twice("a", "a")), "nested deeper than 100 levels"),
        (
            format!("{tower}{{{{define \"t60\"}}}}{{{{end}}}}{{{{template \"t0\"}}}}"),
            "takes more than 1000000 steps",
        ),
        ("{{range 9223372036854775807}}{{end}}".to_owned(), "loops take more than 10000 turns"),
        ("{{range .list}}{{range $.list}}{{end}}{{end}}".to_owned(), "loops take more than 10000 turns"),
        ("{{range .list}}{{$.text}}{{end}}".to_owned(), "the output is longer than 1048576 bytes"),
        (
            "{{$x := .text}}{{range 60}}{{$x = print $x $x}}{{end}}".to_owned(),
            "makes a text of more than 1048576 bytes",
        ),
        (
            "{{$x := .text}}{{range 60}}{{$x = replace $x \"x\" \"xx\"}}{{end}}".to_owned(),
            "makes a text of more than 1048576 bytes",
        ),
        (
            "{{$x := .text}}{{range 60}}{{$x = html $x | printf \"%s<<<<\"}}{{$x = print $x $x}}{{end}}"
                .to_owned(),
            "takes more than 1000000 steps",
        ),
        ("{{range 10000}}{{$x := print $.text $.text}}{{end}}".to_owned(), "takes more than 1000000 steps"),
        (
            "{{range 10000}}{{$x := $.text | upper | lower}}{{end}}".to_owned(),
            "takes more than 1000000 steps",
        ),
        ("{{range 10000}}{{$x := slice $.list}}{{end}}".to_owned(), "takes more than 1000000 steps"),
        ("{{range 10000}}{{$x := printf \"%v\" $}}{{end}}".to_owned(), "takes more than 1000000 steps"),
        (
            "{{range 10000}}{{$x := printf \"%9999999d%9999999d\" 1 1}}{{end}}".to_owned(),
            "takes more than 1000000 steps",
        ),
        ("{{printf .text}}".to_owned(), "printf takes a format of at most 1024 bytes"),
    ] {
        let message = format!(": {message}");
        let found = render(&source, &scope).expect_err(&source);
        assert!(found.ends_with(&message), "{found}, not {message}");
    }
    let fits = format!("{{{{range {}}}}}{{{{$.text}}}}{{{{end}}}}", 16);
    assert_eq!(render(&fits, &scope).map(|text| text.len()), Ok(1 << 20));
}

#[test]
fn nesting_is_bounded_in_every_form() {
    let forms: [fn(usize) -> String; 6] = [
        |n| format!("{}x{}", "{{if .a}}".repeat(n), "{{end}}".repeat(n)),
        |n| format!("{{{{if .a}}}}{}{{{{end}}}}", "{{else if .a}}".repeat(n)),
        |n| format!("{{{{with .a}}}}{}{{{{end}}}}", "{{else with .a}}".repeat(n)),
        |n| format!("{{{{ {}1{} }}}}", "(".repeat(n), ")".repeat(n)),
        |n| format!("{}{}", "{{range .a}}".repeat(n), "{{end}}".repeat(n)),
        |n| format!("{}{}", "{{if .a}}{{else if .a}}".repeat(n), "{{end}}".repeat(n)),
    ];
    for (i, form) in forms.iter().enumerate() {
        assert!(Template::compile(&form(40)).is_ok(), "{i}");
        let source = form(8_000);
        let fault = Template::compile(&source).expect_err("too deep");
        assert!(fault.message.contains("nest") || fault.message.contains("depth"), "{i}: {fault}");
        let deepest = (40..120).rev().find_map(|n| Template::compile(&form(n)).ok());
        let rendered =
            deepest.map(|template| template.render(json!({"a": 1}).as_object().unwrap(), NOW).is_ok());
        assert!(rendered.is_some(), "{i}");
    }
    // Calls and parentheses together: the deepest that a render can be.
    let called = format!(
        "{{{{define \"t\"}}}}{{{{if .}}}}{{{{template \"t\" slice . 1}}}}{{{{else}}}}{{{{ {}1{} }}}}{{{{end}}}}{{{{end}}}}{{{{template \"t\" .a}}}}",
        "(print ".repeat(90),
        ")".repeat(90)
    );
    assert_eq!(render(&called, &json!({"a": "x".repeat(48)})).as_deref(), Ok("1"));
    assert!(
        render(&called, &json!({"a": "x".repeat(50)}))
            .expect_err("deep")
            .ends_with("nested deeper than 100 levels")
    );
    let long = format!("{{{{ .a }}}}{}", "x".repeat(1 << 18));
    let fault = Template::compile(&long).expect_err("too long");
    assert_eq!(fault.to_string(), "is 262152 bytes long; at most 262144 are allowed in a template");
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    for source in ["{{ .x }}", "{{ printf \"%v\" .x }}", "{{ string .x }}"] {
        assert!(
            render(source, &json!({"x": deep})).expect_err(source).ends_with("a value is nested too deeply")
        );
    }
}

#[test]
fn templates_are_equal_by_source() {
    let compile = |source| Template::compile(source).unwrap();
    assert_eq!(compile("{{ .a }}"), compile("{{ .a }}").clone());
    assert_ne!(compile("{{ .a }}"), compile("{{ .a}}"));
    assert_eq!(
        format!("{:?} {}", compile("{{.a}}"), compile("{{.a}}").source()),
        "Template(\"{{.a}}\") {{.a}}"
    );
}

fn scope() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| json!(n)),
        (-2_i64..5).prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        prop_oneof![".*", "[a2Z%.0]{0,6}"].prop_map(Value::String),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..3).prop_map(|members| json!(members)),
        ]
    });
    (value.clone(), value.clone(), value).prop_map(|(a, b, c)| json!({"a": a, "b": b, "c": c}))
}

const PARTS: [&str; 44] = [
    "{{",
    "}}",
    "{{-",
    "-}}",
    "{{if ",
    "{{else}}",
    "{{else if ",
    "{{end}}",
    "{{range ",
    "{{with ",
    "{{define \"t\"}}",
    "{{template \"t\" .}}",
    "{{block \"t\" .}}",
    "{{break}}",
    ".a",
    ".b.c",
    "$",
    "$x",
    " := ",
    " = ",
    "|",
    "(",
    ")",
    ", ",
    "index ",
    "slice ",
    "printf ",
    "eq ",
    "and ",
    "len ",
    "lower ",
    "now",
    "date ",
    "\"%d%s\"",
    "`",
    "\"",
    "'a'",
    "1",
    "-1",
    "nil",
    " ",
    "\n",
    "/*",
    "*/",
];

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_text_is_compiled_or_refused(
        source in prop_oneof![
            "(\\{\\{|\\}\\}|[a-z.$\"`'() |:=/*-]){0,30}",
            prop::collection::vec(prop::sample::select(&PARTS[..]), 0..24).prop_map(|parts| parts.concat()),
        ],
    ) {
        match Template::compile(&source) {
            Ok(template) => {
                let scope = json!({"a": [1, {"b": "x"}], "b": {"c": "text"}});
                let once = template.render(scope.as_object().unwrap(), NOW);
                prop_assert_eq!(once, template.render(scope.as_object().unwrap(), NOW));
            }
            Err(fault) => prop_assert!(fault.line > 0 && fault.column > 0 && !fault.message.is_empty(), "{fault}"),
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_scope_makes_a_function_panic(scope in scope()) {
        for call in [
            "lower .a", "title .a", "trim .a", "replace .a .b .c", "contains .a .b", "default .a .b", "int .a", "float64 .a",
            "string .a", "quote .a", "index .a .b", "index .a .b .c", "slice .a .b", "slice .a .b .c", "len .a", "eq .a .b .c",
            "ne .a .b", "lt .a .b", "ge .a .b", "and .a .b", "or .a .b", "not .a", "print .a .b .c", "println .a .b",
            "printf .a .b .c", "printf \"%v %d %s %q %x %5.1f %t %c %U %e %b\" .a .b .c .a .b .c .a .b .c .a .b", "html .a",
            "js .a", "urlquery .a .b", "date .a .b", "now | date .a | printf .b",
        ] {
            let template = Template::compile(&format!("{{{{ {call} }}}}{{{{range $k, $v := .a}}}}{{{{$v}}}}{{{{end}}}}")).unwrap();
            if let Err(message) = template.render(scope.as_object().unwrap(), NOW) {
                prop_assert!(message.starts_with("line 1, column "), "{message}");
            }
        }
    }
}
