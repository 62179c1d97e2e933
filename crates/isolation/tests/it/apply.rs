//! The loop that carries a plan out, with a kernel that records.
use bailiwick_isolation::apply::{Kernel, apply};
use bailiwick_isolation::plan::Step;
use std::error::Error;
use std::io;

/// Records what it is asked, and refuses one step.
#[derive(Default)]
struct Recorder {
    seen: Vec<Step>,
    refuses: Option<usize>,
}

impl Kernel for Recorder {
    fn apply(&mut self, step: &Step) -> io::Result<()> {
        if self.refuses == Some(self.seen.len()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.seen.push(step.clone());
        Ok(())
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::LoopbackUp,
        Step::RootFrom(0),
        Step::Attach { source: 1, path: "work space".into() },
        Step::PivotRoot,
    ]
}

#[test]
fn steps_are_applied_in_order() {
    let mut kernel = Recorder::default();
    apply(&steps(), &mut kernel).expect("applied");
    assert_eq!(kernel.seen, steps());
}

#[test]
fn the_first_step_that_fails_is_named_and_none_follows() {
    for index in 0..steps().len() {
        let mut kernel = Recorder { refuses: Some(index), ..Recorder::default() };
        let error = apply(&steps(), &mut kernel).expect_err("refused");
        assert_eq!(kernel.seen, steps()[..index]);
        assert_eq!(error.to_string(), format!("could not {}", steps()[index]));
        assert_eq!(error.source().expect("a cause").to_string(), "permission denied");
    }
}
