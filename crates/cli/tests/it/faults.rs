//! The fault points of the crash matrix are in nothing that is shipped.
use crate::support::{holds, plain};
use std::fs;

#[test]
fn the_programs_know_of_no_plan_that_kills_them() {
    let program = plain().program().to_owned();
    // Each with a text that it does hold.
    let programs = [
        ("bailiwick", "BAILIWICK_PROVIDER names an unknown provider"),
        ("bailiwick-supervisor", "enter the directory that the job starts in"),
    ];
    for (name, text) in programs {
        let bytes = fs::read(program.with_file_name(name)).expect("a program");
        assert!(holds(&bytes, text.as_bytes()), "{name} is what it should be");
        assert!(!holds(&bytes, b"BAILIWICK_FAULTS"), "{name} was built with fault points");
    }
}
