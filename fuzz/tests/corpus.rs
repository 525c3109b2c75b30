//! The corpus on any toolchain: every seed and whatever a fuzzer added, and what becomes of the seeds when they are
//! cut, joined and mixed with the words of the dictionary. What broke once goes into the corpus and stays mended.

#![allow(clippy::unwrap_used, reason = "what a test does not expect fails it")]

use std::fs;
use std::path::{Path, PathBuf};

use hyperfleet_core::search::{MAX_BYTES, Options, parse};

/// Seeds beyond this are long for the sake of a limit, and not worth taking apart.
const SHORT: usize = 200;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Name and text of each file.
fn corpus(target: &str) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(here("corpus").join(target))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 10, "the corpus of {target} is not there");
    files
}

fn short_seeds(target: &str) -> Vec<String> {
    let seeds =
        corpus(target).into_iter().filter(|(name, text)| name.ends_with(".txt") && text.len() <= SHORT);
    seeds.map(|(_, text)| text).collect()
}

/// The words between quotes; those that are no text by themselves are left to the fuzzer.
fn dictionary() -> Vec<String> {
    let lines = fs::read_to_string(here("search.dict")).unwrap();
    let words = lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(word);
    words.filter_map(|bytes| String::from_utf8(bytes).ok()).collect()
}

fn word(line: &str) -> Vec<u8> {
    let quoted = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut rest = quoted.unwrap_or_else(|| panic!("{line} is not in quotes")).as_bytes();
    let mut bytes = Vec::new();
    while let [first, behind @ ..] = rest {
        (bytes, rest) = match (first, behind) {
            (b'\\', [c @ (b'\\' | b'"'), behind @ ..]) => ([bytes, vec![*c]].concat(), behind),
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let hex = [*high, *low];
                let byte = u8::from_str_radix(str::from_utf8(&hex).unwrap(), 16).unwrap();
                ([bytes, vec![byte]].concat(), behind)
            }
            (b'\\' | b'"', _) => panic!("{line} is not escaped as libFuzzer wants it"),
            (c, behind) => ([bytes, vec![*c]].concat(), behind),
        };
    }
    assert!(!bytes.is_empty(), "{line} is empty");
    bytes
}

/// Each place where the text can be cut.
fn cuts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).map(|at| text.split_at(at))
}

#[test]
fn every_query_of_the_corpus_is_answered_as_its_name_says() {
    for (name, text) in corpus("search") {
        hyperfleet_fuzz::search(&text);
        let answer = parse(&text, Options { tenancy: true });
        if name.starts_with("accepted-") {
            assert!(answer.is_ok(), "{name}: {}", answer.unwrap_err());
        }
        if name.starts_with("refused-") {
            assert!(answer.is_err(), "{name}");
        }
    }
}

#[test]
fn queries_that_are_cut_or_joined_are_answered() {
    let seeds = short_seeds("search");
    for seed in &seeds {
        for (before, behind) in cuts(seed) {
            hyperfleet_fuzz::search(before);
            hyperfleet_fuzz::search(behind);
        }
        for other in &seeds {
            for joint in ["", " and ", " or not ", "'", "["] {
                hyperfleet_fuzz::search(&format!("{seed}{joint}{other}"));
            }
        }
    }
}

#[test]
fn queries_with_a_word_too_many_are_answered() {
    let words = dictionary();
    for seed in short_seeds("search") {
        for (before, behind) in cuts(&seed) {
            for word in &words {
                hyperfleet_fuzz::search(&format!("{before}{word}{behind}"));
            }
        }
    }
}

#[test]
fn words_that_fill_a_query_and_more_are_answered() {
    for word in dictionary() {
        for start in ["", "name = '", "spec", "generation in ["] {
            let fits = format!("{start}{}", word.repeat((MAX_BYTES - start.len()) / word.len()));
            hyperfleet_fuzz::search(&fits);
            hyperfleet_fuzz::search(&format!("{fits}{word}{word}"));
        }
    }
}

#[test]
fn patterns_of_the_corpus_fit_what_the_table_says_wherever_the_text_begins() {
    for (_, input) in corpus("like") {
        hyperfleet_fuzz::like(&input);
        for (before, behind) in cuts(&input) {
            hyperfleet_fuzz::like(&format!("{before}\n{behind}"));
            for wild in ["%", "_", "\\", "a"] {
                hyperfleet_fuzz::like(&format!("{before}{wild}{behind}"));
            }
        }
    }
}

#[test]
fn every_token_of_the_corpus_is_read_as_its_name_says() {
    for (name, text) in corpus("token") {
        hyperfleet_fuzz::token(&text);
        let read = hyperfleet_auth::parse(&text);
        assert!(!name.starts_with("accepted-") || read.is_ok(), "{name}: {read:?}");
        assert!(!name.starts_with("refused-") || read.is_err(), "{name}");
    }
}

#[test]
fn tokens_that_are_cut_joined_and_changed_are_read_or_refused() {
    let seeds: Vec<String> =
        corpus("token").into_iter().map(|(_, text)| text).filter(|text| text.len() <= 500).collect();
    for seed in &seeds {
        for (before, behind) in cuts(seed) {
            hyperfleet_fuzz::token(before);
            hyperfleet_fuzz::token(behind);
            for more in [".", "A", "-", "=", "e30", "\0", "é"] {
                hyperfleet_fuzz::token(&format!("{before}{more}{behind}"));
            }
        }
        // The parts of one with those of another.
        for other in &seeds {
            let (own, others): (Vec<&str>, Vec<&str>) =
                (seed.split('.').collect(), other.split('.').collect());
            for place in 0..own.len().min(others.len()) {
                let mut mixed = own.clone();
                mixed[place] = others[place];
                hyperfleet_fuzz::token(&mixed.join("."));
            }
        }
    }
}

#[test]
fn headers_of_the_corpus_are_parsed_alike_when_cut_joined_or_changed() {
    let seeds: Vec<String> = corpus("headers").into_iter().map(|(_, text)| text).collect();
    for seed in &seeds {
        for (before, behind) in cuts(seed) {
            hyperfleet_fuzz::headers(before);
            hyperfleet_fuzz::headers(behind);
            for more in ["\"", "W/", ",", " ", "*", "\n", "\t", "\u{7f}", "é", "true", "0"] {
                hyperfleet_fuzz::headers(&format!("{before}{more}{behind}"));
            }
        }
        for other in &seeds {
            for joint in ["", "\n", ",", ", "] {
                hyperfleet_fuzz::headers(&format!("{seed}{joint}{other}"));
            }
        }
    }
}

#[test]
fn media_ranges_of_the_corpus_are_parsed_alike_when_cut_joined_or_changed() {
    let seeds: Vec<String> = corpus("accept").into_iter().map(|(_, text)| text).collect();
    for seed in &seeds {
        for (before, behind) in cuts(seed) {
            hyperfleet_fuzz::accept(before);
            hyperfleet_fuzz::accept(behind);
            for more in [",", ";", "/", "*", "*/*", ";q=0", ";q=", "q=1", "1e9", " ", "\t", "\"", "é", "\0"]
            {
                hyperfleet_fuzz::accept(&format!("{before}{more}{behind}"));
            }
        }
        for other in &seeds {
            for joint in ["", ",", ";", ", "] {
                hyperfleet_fuzz::accept(&format!("{seed}{joint}{other}"));
            }
        }
    }
}

#[test]
fn keys_cut_joined_and_changed_are_taken_to_the_letter_or_refused() {
    let seeds: Vec<String> = corpus("idempotency_key").into_iter().map(|(_, text)| text).collect();
    for seed in &seeds {
        for (before, behind) in cuts(seed) {
            hyperfleet_fuzz::key(before);
            hyperfleet_fuzz::key(behind);
            for more in ["\n", "\r\n", " ", "\t", "\0", "\u{7f}", "é", "x"] {
                hyperfleet_fuzz::key(&format!("{before}{more}{behind}"));
            }
        }
        for other in &seeds {
            hyperfleet_fuzz::key(&format!("{seed}{other}"));
        }
    }
}

#[test]
fn schemas_of_the_corpus_check_their_specs_when_changed_or_exchanged() {
    let seeds: Vec<String> = corpus("schema").into_iter().map(|(_, text)| text).collect();
    for seed in &seeds {
        hyperfleet_fuzz::schema(seed);
        for (before, behind) in cuts(seed) {
            for more in ["[", "]", "0", "\"", "\\\\", "(?=", "{9}", "*"] {
                hyperfleet_fuzz::schema(&format!("{before}{more}{behind}"));
            }
        }
        for other in &seeds {
            if let (Some((schema, _)), Some((_, spec))) = (seed.split_once('\n'), other.split_once('\n')) {
                hyperfleet_fuzz::schema(&format!("{schema}\n{spec}"));
            }
        }
    }
}
