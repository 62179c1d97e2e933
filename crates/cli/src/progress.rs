//! A sign of life on a terminal while a job runs.
//!
//! Nothing is shown for the first half second, nor ever where standard error is not a terminal; there, not even a thread
//! is started.
use crate::settings::Settings;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What is quicker than this needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the line is redrawn: often enough to look alive, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(120);

/// A line on the terminal, until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Progress(Option<Line>);

#[derive(Debug)]
struct Line {
    bar: ProgressBar,
    /// Dropping it ends the thread.
    finished: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    /// Begins to wait; the line appears once that takes long.
    pub(crate) fn start(settings: &Settings) -> Self {
        Self(settings.live.then(|| Line::start(settings.live_colour)))
    }

    /// The same, unless something else is shown, or nothing is waited for.
    pub(crate) fn unless(idle: bool, settings: &Settings) -> Self {
        if idle { Self(None) } else { Self::start(settings) }
    }

    /// Prints a line on standard error, above the sign of life.
    pub(crate) fn say(&self, line: &str) {
        match &self.0 {
            Some(shown) => shown.bar.suspend(|| crate::output::note(line)),
            None => crate::output::note(line),
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(self) {
        let Some(Line { bar, finished, thread }) = self.0 else { return };
        drop(finished);
        // A thread that panicked has drawn its last line all the same.
        drop(thread.join());
        bar.finish_and_clear();
    }
}

impl Line {
    fn start(colour: bool) -> Self {
        let template = if colour {
            "{spinner:.cyan} running, {elapsed}"
        } else {
            "{spinner} running, {elapsed}"
        };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        let bar =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let (finished, waiting) = mpsc::channel::<()>();
        let shown = bar.clone();
        let thread = thread::spawn(move || {
            let mut pause = PATIENCE;
            while waiting.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if pause == PATIENCE {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                }
                pause = TICK;
                shown.tick();
            }
        });
        Self { bar, finished, thread }
    }
}
