//! What is measured against what, and the bars.
//!
//! A row is data: to add one, add it here and a line to `benches/README.md`.

use super::scene::Scene;

/// One comparison.
#[derive(Debug)]
pub(crate) struct Row {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    /// Our side: the words behind `bailiwick`.
    pub(crate) ours: &'static [&'static str],
    /// The peer's side: the whole command.
    pub(crate) theirs: &'static [&'static str],
    /// How many runs of `--runs` one run of this row stands for; above 1 for rows that take long.
    pub(crate) weight: usize,
    /// The words behind `bailiwick` of the runs in which the supervisor's memory is sampled; empty for none.
    pub(crate) memory: &'static [&'static str],
    /// What is around each run, for rows that need something there.
    pub(crate) scene: Option<Scene>,
    /// What the row has to keep.
    pub(crate) bars: &'static [Bar],
}

/// One thing that a row has to keep.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) measure: Measure,
    /// The largest value that is within.
    pub(crate) at_most: f64,
    /// Whether `--check` fails above it; a target that is missed is only said.
    pub(crate) binding: bool,
}

/// What a bar is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Our median over the peer's.
    RatioP50,
    /// Our 95th percentile over the peer's.
    RatioP95,
    /// Our median less the peer's, in milliseconds.
    OverMs,
    /// The largest VmHWM of the supervisor, in MiB.
    SupervisorMib,
}

const fn bar(measure: Measure, at_most: f64) -> Bar {
    Bar { measure, at_most, binding: true }
}

const fn target(measure: Measure, at_most: f64) -> Bar {
    Bar { measure, at_most, binding: false }
}

/// The job of `output-1gib`: 1 GiB of zeros.
const GIB: &str = "1073741824";

/// Every row, in the order in which they run.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "start",
        ours: &["version"],
        theirs: &["/bin/true"],
        weight: 1,
        memory: &[],
        scene: None,
        bars: &[bar(Measure::OverMs, 3.0)],
    },
    Row {
        name: "exec-true",
        ours: &["exec", "--", "true"],
        theirs: &[
            "/usr/bin/bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--unshare-all",
            "--die-with-parent",
            "true",
        ],
        weight: 1,
        memory: &[],
        scene: None,
        bars: &[
            bar(Measure::RatioP50, 1.3),
            target(Measure::RatioP50, 1.15),
            target(Measure::RatioP95, 1.4),
        ],
    },
    Row {
        name: "output-1gib",
        ours: &["exec", "--", "head", "-c", GIB, "/dev/zero"],
        theirs: &["/bin/sh", "-c", "head -c 1073741824 /dev/zero | cat > /dev/null"],
        weight: 10,
        memory: &["exec", "--output-bytes", "64MiB", "--", "head", "-c", GIB, "/dev/zero"],
        scene: None,
        bars: &[bar(Measure::RatioP50, 1.4), bar(Measure::SupervisorMib, 8.0)],
    },
    Row {
        name: "put-1000",
        ours: &["put", "put-{run}", "tree", "tree"],
        theirs: &["/bin/sh", "-c", "tar -c tree | tar -x -C other"],
        weight: 10,
        memory: &[],
        scene: Some(Scene {
            files: 1_000,
            file_bytes: 50_000,
            before: &["create", "--workspace-id", "put-{run}"],
            after: &["destroy", "put-{run}"],
            other: "other",
        }),
        bars: &[bar(Measure::RatioP50, 1.5)],
    },
];

/// Returns the row called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
