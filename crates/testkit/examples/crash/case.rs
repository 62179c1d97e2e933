//! One case of the matrix: a scenario, a point, its side, and who is killed there.
//!
//! Its text, `SCENARIO:POINT:NTH:WHEN:WHO`, is what `--only` takes.
use std::fmt;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The process of the target.
    Caller,
    /// The supervisor of the job.
    Supervisor,
    /// The sandbox's init, and with it the job.
    Init,
    /// Everybody, from the inside out.
    All,
}

impl Who {
    /// Everybody who can be killed.
    pub(crate) const ALL: [Self; 4] = [Self::Caller, Self::Supervisor, Self::Init, Self::All];

    /// Returns the name that a plan uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Supervisor => "supervisor",
            Self::Init => "init",
            Self::All => "all",
        }
    }

    /// Returns whether `role` is among them.
    pub(crate) fn includes(self, role: Self) -> bool {
        self == Self::All || self == role
    }
}

/// One passing of a point, as a tracing run saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passing {
    /// The point.
    pub(crate) point: String,
    /// Which passing of it, from 1.
    pub(crate) nth: u32,
    /// `before` or `after`.
    pub(crate) when: String,
    /// The roles that somebody had there.
    pub(crate) alive: Vec<String>,
}

impl Passing {
    /// Returns whether there is somebody to kill: `all` needs more than the caller, which is a case of its own.
    pub(crate) fn has(&self, who: Who) -> bool {
        match who {
            Who::All => self.alive.len() > 1,
            one => self.alive.iter().any(|role| role == one.name()),
        }
    }
}

/// What a tracing run wrote down.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The points that the programs have.
    pub(crate) declared: Vec<String>,
    /// The points that were passed.
    pub(crate) passed: Vec<Passing>,
}

impl Trace {
    /// Reads a report.
    pub(crate) fn parse(report: &str) -> Self {
        let mut trace = Self::default();
        for line in report.lines() {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            match words.as_slice() {
                ["declared", point] => trace.declared.push((*point).to_owned()),
                ["passed", when, nth, alive, point] => trace.passed.push(Passing {
                    point: (*point).to_owned(),
                    nth: nth.parse().expect("a passing has a number"),
                    when: (*when).to_owned(),
                    alive: alive.split(',').map(str::to_owned).collect(),
                }),
                _ => panic!("a tracing run wrote `{line}`"),
            }
        }
        trace
    }
}

/// What a killing run wrote down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kill {
    /// How many were killed.
    pub(crate) victims: usize,
    /// The jobs whose ends were recorded by then.
    pub(crate) recorded: Vec<String>,
}

impl Kill {
    /// Reads a report; `None` where the point was not passed.
    pub(crate) fn parse(report: &str) -> Option<Self> {
        let line = report.lines().next()?;
        let mut words = line.strip_prefix("killed ")?.splitn(3, ' ');
        let victims = words.next()?.parse().ok()?;
        let _alive = words.next()?;
        let recorded = words.next()?.split(',').filter(|job| !job.is_empty());
        Some(Self { victims, recorded: recorded.map(str::to_owned).collect() })
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The point.
    pub(crate) point: String,
    /// Which passing of it.
    pub(crate) nth: u32,
    /// The side.
    pub(crate) when: String,
    /// Who is killed.
    pub(crate) who: Who,
}

impl Case {
    /// Reads what `--only` takes: as much of a case as is wanted, from the front.
    pub(crate) fn covers(only: &str, case: &Self) -> bool {
        let text = case.to_string();
        text == only || text.strip_prefix(only).is_some_and(|rest| rest.starts_with(':'))
    }

    /// Returns the plan for the target.
    pub(crate) fn plan(&self) -> String {
        format!("{} {} {} {}", self.nth, self.when, self.who.name(), self.point)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, point, nth, when, who } = self;
        write!(f, "{scenario}:{point}:{nth}:{when}:{}", who.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_they_are_written() {
        let trace = Trace::parse("declared effect:run\npassed after 2 caller,init effect:run\n");
        assert_eq!(trace.declared, ["effect:run"]);
        let passing = &trace.passed[0];
        assert_eq!((passing.point.as_str(), passing.nth), ("effect:run", 2));
        assert!(passing.has(Who::Init) && passing.has(Who::All) && !passing.has(Who::Supervisor));
        let kill = Kill::parse("killed 2 caller,supervisor job-a,job-t\n").expect("passed");
        assert_eq!((kill.victims, kill.recorded.len()), (2, 2));
        assert_eq!(Kill::parse("killed 1 caller \n").expect("passed").recorded.len(), 0);
        assert_eq!(Kill::parse(""), None);
    }

    #[test]
    fn a_case_is_chosen_by_its_beginning() {
        let (scenario, point, when) = ("run".into(), "effect:run".into(), "after".into());
        let case = Case { scenario, point, nth: 1, when, who: Who::All };
        assert_eq!(case.to_string(), "run:effect:run:1:after:all");
        for only in ["run", "run:effect:run", "run:effect:run:1:after:all"] {
            assert!(Case::covers(only, &case), "{only}");
        }
        assert!(!Case::covers("run:effect:r", &case));
        assert!(!Case::covers("ru", &case));
    }
}
