//! Percentiles, ratios and verdicts: pure.

use std::time::Duration;

use super::rows::{Bar, Measure};

/// What one person measured for one row.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Samples {
    pub(crate) ours: Vec<Duration>,
    pub(crate) theirs: Vec<Duration>,
    /// The largest VmHWM of a supervisor, in KiB, where the row samples it.
    pub(crate) supervisor_kib: Option<u64>,
}

/// Three percentiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

/// A bar and what was measured for it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) bar: &'static Bar,
    /// Nothing where nothing was measured, which is not within.
    pub(crate) value: Option<f64>,
}

impl Verdict {
    /// Returns whether the value is at or below the bar.
    pub(crate) fn within(&self) -> bool {
        self.value.is_some_and(|value| value <= self.bar.at_most)
    }

    /// Returns whether `--check` has to fail.
    pub(crate) fn fails(&self) -> bool {
        self.bar.binding && !self.within()
    }
}

/// Returns the percentiles of `runs` by nearest rank, or nothing for no runs.
pub(crate) fn summarise(runs: &[Duration]) -> Option<Summary> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    Some(Summary {
        p50: percentile_ms(&sorted, 50)?,
        p95: percentile_ms(&sorted, 95)?,
        p99: percentile_ms(&sorted, 99)?,
    })
}

/// The nearest rank: the smallest value that at least `percent` of all do not exceed.
fn percentile_ms(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|run| run.as_secs_f64() * 1e3)
}

/// Returns what `samples` say about `measure`.
pub(crate) fn measure(measure: Measure, samples: &Samples) -> Option<f64> {
    if measure == Measure::SupervisorMib {
        let kib = u32::try_from(samples.supervisor_kib?).ok()?;
        return Some(f64::from(kib) / 1024.0);
    }
    let ours = summarise(&samples.ours)?;
    let theirs = summarise(&samples.theirs)?;
    Some(match measure {
        Measure::RatioP50 => ours.p50 / theirs.p50,
        Measure::RatioP95 => ours.p95 / theirs.p95,
        Measure::OverMs | Measure::SupervisorMib => ours.p50 - theirs.p50,
    })
}

/// Returns a verdict for each of `bars`.
pub(crate) fn judge(bars: &'static [Bar], samples: &Samples) -> Vec<Verdict> {
    bars.iter().map(|bar| Verdict { bar, value: measure(bar.measure, samples) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(values: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        values.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn percentiles_are_nearest_ranks_whatever_the_order() {
        let summary = summarise(&millis((1..=100).rev())).unwrap();
        assert_eq!(summary, Summary { p50: 50.0, p95: 95.0, p99: 99.0 });
    }

    #[test]
    fn one_run_is_every_percentile_and_no_run_is_none() {
        assert_eq!(summarise(&millis([7])).unwrap(), Summary { p50: 7.0, p95: 7.0, p99: 7.0 });
        assert_eq!(summarise(&[]), None);
    }

    #[test]
    fn each_measure_reads_its_own_numbers() {
        let samples = Samples {
            ours: millis([4, 4, 12]),
            theirs: millis([2, 2, 3]),
            supervisor_kib: Some(3 * 1024),
        };
        assert_eq!(measure(Measure::RatioP50, &samples), Some(2.0));
        assert_eq!(measure(Measure::RatioP95, &samples), Some(4.0));
        assert_eq!(measure(Measure::OverMs, &samples), Some(2.0));
        assert_eq!(measure(Measure::SupervisorMib, &samples), Some(3.0));
    }

    #[test]
    fn a_missing_number_fails_a_bar_and_never_a_target() {
        const BARS: &[Bar] = &[
            Bar { measure: Measure::RatioP50, at_most: 1.3, binding: true },
            Bar { measure: Measure::RatioP50, at_most: 1.15, binding: false },
        ];
        let verdicts = judge(BARS, &Samples::default());
        assert!(verdicts.iter().all(|verdict| !verdict.within()));
        assert_eq!(verdicts.iter().filter(|verdict| verdict.fails()).count(), 1);
    }

    #[test]
    fn a_value_at_the_bar_is_within() {
        const BARS: &[Bar] = &[Bar { measure: Measure::OverMs, at_most: 3.0, binding: true }];
        let samples =
            |ours| Samples { ours: millis([ours]), theirs: millis([1]), supervisor_kib: None };
        assert!(!judge(BARS, &samples(4))[0].fails());
        assert!(judge(BARS, &samples(5))[0].fails());
    }
}
