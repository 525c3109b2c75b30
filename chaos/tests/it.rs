//! A short run in the gate. It fails when a promise is broken, never because writes stood still for long on a busy machine.

#![allow(clippy::unwrap_used, reason = "a fault fails the test")]

use std::process::Command;

#[test]
fn a_minute_of_faults_breaks_no_promise() {
    let output = Command::new(env!("CARGO_BIN_EXE_hyperfleet-chaos"))
        .args(["--seconds", "60", "--seed", "27", "--rate", "60"])
        .output()
        .unwrap();
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{errors}", output.status);
}
