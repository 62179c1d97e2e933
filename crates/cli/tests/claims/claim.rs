//! What a claim is, and when it holds: refused inside, and reached by the same attempt outside.
use crate::scene::Scene;
use bailiwick_testkit::User;

/// One sentence about what a job cannot do, and how that is tried.
pub(crate) struct Claim {
    /// Its name, in SECURITY.md and in the printed table.
    pub(crate) id: &'static str,
    /// What SECURITY.md says, word for word.
    pub(crate) sentence: &'static str,
    check: Check,
    /// Whether it is made only where root starts the job.
    root_only: bool,
}

/// How a claim is tried.
enum Check {
    /// One line of shell, run inside and outside.
    Attempt(Attempt),
    /// More than that.
    Steps(fn(&mut Scene) -> Verdict),
}

/// One line of shell that runs the probe, inside and outside.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    line: &'static str,
    flags: &'static str,
    refused: &'static [&'static str],
    control: Control,
    kernel: Option<&'static str>,
}

/// Where the positive control runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// As the user, without more.
    Plain,
    /// As root; an ordinary user in own user, mount and network namespaces, which give the capabilities over them.
    Namespaces,
    /// Both users in namespaces as above and a PID namespace, whose process 1 is a shell of the user's.
    OwnInit,
    /// As root; an ordinary user in own user and UTS namespaces.
    HostName,
    /// As root for both users: nobody else may do it outside.
    Root,
}

/// What came of one side of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It worked.
    Reached(String),
    /// It was refused, and how.
    Refused(String),
    /// It could not be tried.
    Broken(String),
    /// It cannot be had on this host, or by this user, and why.
    Lacking(String),
}

/// Both sides of an attempt.
pub(crate) struct Verdict {
    pub(crate) inside: Seen,
    pub(crate) control: Seen,
}

/// Makes a claim that the probe checks: `line` has to end with one of `refused` inside.
pub(crate) const fn attempt(
    line: &'static str,
    refused: &'static [&'static str],
    control: Control,
) -> Attempt {
    Attempt { line, flags: "", refused, control, kernel: None }
}

impl Attempt {
    /// Gives `exec` these flags.
    pub(crate) const fn flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }

    /// Accepts that this kernel itself refuses everybody outside with `errno`, which no refusal inside may then be.
    pub(crate) const fn or_kernel_says(self, errno: &'static str) -> Self {
        Self { kernel: Some(errno), ..self }
    }

    fn run(&self, scene: &Scene) -> Verdict {
        let Some(line) = scene.fill(self.line) else {
            let lacking = Seen::Lacking(format!("`{}` needs root, or a network", self.line));
            return Verdict { inside: lacking.clone(), control: lacking };
        };
        let flags = scene.fill(self.flags).expect("flags name what every scene has");
        Verdict {
            inside: self.expected(scene.inside(&flags, &line)),
            control: self.outside(scene.outside(self.control, &line)),
        }
    }

    /// A refusal for another reason than the claimed one proves nothing.
    fn expected(&self, seen: Seen) -> Seen {
        match seen {
            Seen::Refused(how) if !self.refused.contains(&how.as_str()) => {
                Seen::Broken(format!("refused {how}, not {}", self.refused.join(" or ")))
            }
            other => other,
        }
    }

    fn outside(&self, seen: Seen) -> Seen {
        match seen {
            Seen::Refused(how) if self.kernel == Some(&how) && !self.refused.contains(&&*how) => {
                Seen::Reached(format!("kernel: {how}"))
            }
            other => other,
        }
    }
}

impl Claim {
    /// Makes a claim that one line checks.
    pub(crate) const fn tried(id: &'static str, sentence: &'static str, attempt: Attempt) -> Self {
        Self { id, sentence, check: Check::Attempt(attempt), root_only: false }
    }

    /// Makes a claim that takes several steps to check.
    pub(crate) const fn steps(
        id: &'static str,
        sentence: &'static str,
        steps: fn(&mut Scene) -> Verdict,
    ) -> Self {
        Self { id, sentence, check: Check::Steps(steps), root_only: false }
    }

    /// Makes the claim only where root starts the job.
    pub(crate) const fn for_root(self) -> Self {
        Self { root_only: true, ..self }
    }

    /// Returns whether the claim is made where `user` starts the job.
    pub(crate) fn is_made_for(&self, user: User) -> bool {
        !self.root_only || user == User::Root
    }

    /// Tries it.
    pub(crate) fn judge(&self, scene: &mut Scene) -> Verdict {
        match &self.check {
            Check::Attempt(attempt) => attempt.run(scene),
            Check::Steps(steps) => steps(scene),
        }
    }
}

impl Verdict {
    /// Returns whether the claim holds: nothing else than a refusal inside and a success outside counts.
    pub(crate) const fn holds(&self) -> bool {
        matches!((&self.inside, &self.control), (Seen::Refused(_), Seen::Reached(_)))
    }

    /// Returns why the claim could not be tried here.
    pub(crate) fn lacking(&self) -> Option<&str> {
        match (&self.inside, &self.control) {
            (Seen::Lacking(why), _) | (Seen::Refused(_), Seen::Lacking(why)) => Some(why),
            _ => None,
        }
    }
}

impl Seen {
    /// Reads the lines of the probe in `text`; of several, one that was reached counts, then one that broke.
    pub(crate) fn read(text: &str) -> Self {
        let lines: Vec<Self> = text.lines().filter_map(Self::read_line).collect();
        let find = |wanted: fn(&Self) -> bool| lines.iter().find(|seen| wanted(seen)).cloned();
        find(|seen| matches!(seen, Self::Reached(_)))
            .or_else(|| find(|seen| !matches!(seen, Self::Refused(_))))
            .or_else(|| lines.last().cloned())
            .unwrap_or_else(|| Self::Broken(format!("no word of the probe in {text:?}")))
    }

    fn read_line(line: &str) -> Option<Self> {
        let (_, word) = line.strip_prefix("probe ")?.split_once(": ")?;
        let (verdict, rest) = word.split_once(' ').unwrap_or((word, ""));
        Some(match verdict {
            "reached" => Self::Reached(rest.to_owned()),
            "refused" => Self::Refused(rest.to_owned()),
            _ => Self::Broken(word.to_owned()),
        })
    }

    /// Makes a refusal or a success of steps.
    pub(crate) fn of(reached: bool, what: impl Into<String>) -> Self {
        if reached { Self::Reached(what.into()) } else { Self::Refused(what.into()) }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (verdict, rest) = match self {
            Self::Reached(what) => ("reached", what),
            Self::Refused(how) => ("refused", how),
            Self::Broken(why) => ("BROKEN", why),
            Self::Lacking(_) => return f.pad("lacking"),
        };
        f.pad(format!("{verdict} {rest}").trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_probe_is_no_refusal() {
        assert!(matches!(Seen::read("sh: 1: ./probe: not found\n"), Seen::Broken(_)));
    }

    #[test]
    fn what_was_reached_counts_more_than_what_was_refused() {
        let text = "probe a: refused EPERM\nprobe b: reached\nprobe c: refused EPERM\n";
        assert_eq!(Seen::read(text), Seen::Reached(String::new()));
    }

    #[test]
    fn a_claim_without_its_control_does_not_hold() {
        let refused = || Seen::Refused("EPERM".into());
        assert!(!Verdict { inside: refused(), control: refused() }.holds());
        assert!(!Verdict { inside: refused(), control: Seen::Broken("usage".into()) }.holds());
        assert!(Verdict { inside: refused(), control: Seen::Reached(String::new()) }.holds());
    }

    #[test]
    fn a_refusal_for_another_reason_breaks_the_claim() {
        let attempt = attempt("", &["EPERM"], Control::Plain).or_kernel_says("ENOSYS");
        let seen = |how: &str| Seen::Refused(how.to_owned());
        assert!(matches!(attempt.expected(seen("ENOENT")), Seen::Broken(_)));
        assert_eq!(attempt.expected(seen("EPERM")), seen("EPERM"));
        assert!(matches!(attempt.outside(seen("ENOSYS")), Seen::Reached(_)));
        assert_eq!(attempt.outside(seen("EPERM")), seen("EPERM"));
    }
}
