//! Feeds `hyperfleet_fuzz::schema`: what a fuzzer thinks of, or without one the files that are named as arguments.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| -> libfuzzer_sys::Corpus {
    match std::str::from_utf8(data) {
        Ok(text) => hyperfleet_fuzz::schema(text),
        Err(_) => return libfuzzer_sys::Corpus::Reject,
    }
    libfuzzer_sys::Corpus::Keep
});

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        hyperfleet_fuzz::schema(&std::fs::read_to_string(path)?);
    }
    Ok(())
}
