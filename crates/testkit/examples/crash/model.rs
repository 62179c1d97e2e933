//! The model: from what was known at the kill to what may be found afterwards. Pure.
//!
//! A finding is either a lost outcome or a wrong state. What a caller was told stays true; what had ended stays ended, with its
//! output; what was cut short reads so, and nothing that is left stands in anybody's way.
use crate::case::{Case, Who};
use crate::scenario::{Again, File, Scenario, Truth};
use crate::stage::{Ended, Files, JobSeen, Seen};
use bailiwick_contract::journal::Change;
use serde_json::Value;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A result that was there is not there any more.
    Lost(String),
    /// Something is, or reads, as it may not.
    Wrong(String),
}

/// What is known of a case before anything is looked at.
struct Known<'a> {
    scenario: &'a Scenario,
    case: &'a Case,
    /// Who may have been killed: by the case, and by the wreck before it.
    killed: Vec<Who>,
    /// The job's end was on disk or in the journal when the kill came.
    ended: bool,
    seen: &'a Seen,
}

impl Known<'_> {
    fn was_killed(&self, role: Who) -> bool {
        self.killed.iter().any(|who| who.includes(role))
    }

    fn target_survives(&self) -> bool {
        !self.case.who.includes(Who::Caller)
    }

    /// The target said that it was done.
    fn acknowledged(&self) -> bool {
        self.seen.target.code == Some(0)
    }
}

/// Returns whether the job's end was recorded before the kill.
fn has_ended(scenario: &Scenario, case: &Case, seen: &Seen) -> bool {
    let recorded = |kill: &crate::case::Kill| kill.recorded.iter().any(|job| job == "job-t");
    let is_run = |line: &[&str]| line.contains(&"job-t") && !line.contains(&"--detach");
    let in_setup = scenario.setup.iter().any(|(_, line)| is_run(line));
    // What a later verb writes need not be how the job ended.
    let committed =
        scenario.wreck.is_none() && case.when == "after" && case.point.contains("job_ended");
    in_setup || committed || seen.kills.iter().flatten().any(recorded)
}

/// Returns who was killed before the case.
fn wrecked(scenario: &Scenario) -> Option<Who> {
    let plan = scenario.wreck.as_ref()?.plan;
    Who::ALL.into_iter().find(|who| plan.split(' ').nth(2) == Some(who.name()))
}

/// Judges what was seen of a case.
pub(crate) fn judge(scenario: &Scenario, case: &Case, seen: &Seen) -> Vec<Finding> {
    if seen.kills.iter().any(Option::is_none) {
        return vec![Finding::Wrong("the point was not passed".into())];
    }
    let killed = std::iter::once(case.who).chain(wrecked(scenario)).collect();
    let ended = has_ended(scenario, case, seen);
    let known = Known { scenario, case, killed, ended, seen };
    let mut found = Vec::new();
    target(&known, &mut found);
    state(&known, &mut found);
    job(&known, &mut found);
    journal(&known, &mut found);
    files(&known, &mut found);
    artifact(&known, &mut found);
    what_follows(&known, &mut found);
    for debris in seen.debris.iter().chain(&seen.debris_after) {
        found.push(Finding::Wrong(format!("left: {debris}")));
    }
    found
}

fn wrong(found: &mut Vec<Finding>, holds: bool, text: impl FnOnce() -> String) {
    if !holds {
        found.push(Finding::Wrong(text()));
    }
}

/// The target dies with its caller, and else says something that a caller can use.
fn target(known: &Known<'_>, found: &mut Vec<Finding>) {
    let target = &known.seen.target;
    // A supervisor that has told its caller the end races with it to the caller's exit.
    let races = known.case.point.starts_with("supervisor:") && known.case.who != Who::Supervisor;
    let survives = target.code.is_some();
    wrong(found, survives == known.target_survives() || (survives && races), || {
        format!("the target ended with {:?}", target.code)
    });
    for ended in std::iter::once(target).chain(&known.seen.background) {
        if let Some(code) = ended.code {
            wrong(found, is_answer(ended, code), || {
                format!("exit code {code} does not fit {}", ended.answer)
            });
        }
    }
    let first = &known.seen.first;
    let fits = first.code == Some(0)
        || (first.code == Some(1) && first.text("/reason") == "unknown_workspace");
    wrong(found, fits, || format!("the first look says {}", first.answer));
}

/// A package whose status fits the exit code, or an error that says what to do.
fn is_answer(ended: &Ended, code: i32) -> bool {
    if ended.answer.get("code").is_some() {
        let said = ended.answer["code"].as_i64();
        return said == Some(code.into())
            && code != 0
            && !ended.text("/reason").is_empty()
            && !ended.text("/remediation").is_empty();
    }
    match ended.text("/status") {
        "failure" => code == 6,
        "cancelled" => code == 5,
        "timeout" => code == 4,
        "infrastructure_failure" => code == 7,
        "" => code == 0,
        // A job that succeeded, and whose artifact could not be taken out.
        _ => ended.answer.is_object() && (code == 0 || !ended.lines("attention").is_empty()),
    }
}

fn state(known: &Known<'_>, found: &mut Vec<Finding>) {
    let (scenario, state) = (known.scenario, known.seen.state.as_str());
    wrong(found, scenario.ends.contains(&state), || format!("the workspace is {state}"));
    if known.acknowledged() {
        wrong(found, scenario.done.contains(&state), || {
            format!("the target was done, and the workspace is {state}")
        });
    }
    // A workspace that was made before the target is never forgotten.
    let made = scenario.setup.iter().any(|(_, line)| line.contains(&"ws"));
    if made && state == "unknown" {
        found.push(Finding::Lost("the workspace is on no record".into()));
    }
}

fn job(known: &Known<'_>, found: &mut Vec<Finding>) {
    let Some(truth) = &known.scenario.job else { return };
    let Some(job) = &known.seen.job else {
        if known.ended {
            found.push(Finding::Lost("the job had ended, and is on no record".into()));
        }
        let told = known.seen.target.text("/provenance/job_id") == "job-t";
        wrong(found, !told, || "the job was reported, and is on no record".into());
        wrong(found, !has_run(known), || "the job ran, and is on no record".into());
        return;
    };
    verdict(known, truth, job, found);
    // One verdict: what anybody was told of the job is what is on record.
    let status = job.package.text("/facts/job_status");
    for told in std::iter::once(&known.seen.target).chain(&known.seen.background) {
        let said = told.text("/facts/job_status");
        let is_end = !matches!(said, "" | "running");
        if told.text("/provenance/job_id") == "job-t" && is_end && said != status {
            let text = format!("the job was told to be {said}, and reads {status}");
            found.push(Finding::Wrong(text));
        }
    }
    if known.seen.output_after != job.output {
        found.push(Finding::Lost("the output changed after the workspace was destroyed".into()));
    }
}

fn has_run(known: &Known<'_>) -> bool {
    known.seen.tree.as_ref().is_some_and(|tree| tree.contains_key("witness"))
}

fn verdict(known: &Known<'_>, truth: &Truth, job: &JobSeen, found: &mut Vec<Finding>) {
    let facts = &job.package.answer["facts"];
    let text = |name: &str| facts[name].as_str().unwrap_or_default();
    let (status, reason) = (text("job_status"), text("reason"));
    let exit = facts["exit_status"].as_i64();
    let output = job.output.as_deref();
    if status == truth.status && exit == truth.exit {
        if output != Some(truth.output.as_bytes()) {
            found.push(Finding::Lost(format!("the output of the job is {output:?}")));
        }
        return;
    }
    let said = format!("the job reads {status} ({reason}), exit status {exit:?}");
    if known.ended {
        found.push(Finding::Lost(format!("{said}; it had ended as {}", truth.status)));
        return;
    }
    let allowed = match (status, reason) {
        ("infrastructure_failure", "never_started") => {
            known.was_killed(Who::Caller)
                && !was_let_go(known)
                && !has_run(known)
                && output == Some(b"")
        }
        ("infrastructure_failure", "supervisor_lost") => known.was_killed(Who::Supervisor),
        ("infrastructure_failure", "setup_failed") => known.was_killed(Who::Init),
        ("failure", _) => known.was_killed(Who::Init) && facts["signal"].as_i64() == Some(9),
        _ => false,
    };
    wrong(found, allowed, || said);
    let begins = output.is_some_and(|output| truth.output.as_bytes().starts_with(output));
    wrong(found, begins, || format!("the output of the job is {output:?}"));
}

/// The supervisor opens the gate before it passes any point but its first ones.
fn was_let_go(known: &Known<'_>) -> bool {
    let point = known.case.point.strip_prefix("supervisor:");
    known.scenario.wreck.is_none() && point.is_some_and(|name| name != "set_up")
}

fn journal(known: &Known<'_>, found: &mut Vec<Finding>) {
    for journal in [&known.seen.journal, &known.seen.journal_after] {
        wrong(found, journal.broken.is_none(), || format!("the journal: {:?}", journal.broken));
        wrong(found, journal.open.is_empty(), || format!("open intents: {:?}", journal.open));
        for (job, count) in journal.verdicts() {
            wrong(found, count == 1, || format!("{job} has {count} outcomes on record"));
        }
    }
    for note in known.seen.journal.reconciled() {
        wrong(found, is_told(known, note), || format!("settled, and nobody was told: {note}"));
    }
}

/// Who settles something says so; what became of a job is also said by the job's own package. What was settled by a target
/// that was killed afterwards was settled in an answer that nobody read.
fn is_told(known: &Known<'_>, note: &str) -> bool {
    let seen = known.seen;
    let unread = !known.target_survives()
        && known.scenario.wreck.is_some()
        && !(known.case.when == "before" && known.case.point.starts_with("append:"));
    unread
        || seen.notes.iter().any(|line| line.contains(note))
        || (seen.job.is_some() && note.starts_with("job job-t "))
}

fn holds(files: &Files, file: &File) -> bool {
    files.get(file.0).is_some_and(|bytes| bytes == file.1.as_bytes())
}

/// A file on the host is what was published, whole, or what was there before.
fn taken(known: &Known<'_>, file: File, found: &mut Vec<Finding>) {
    let (name, bytes) = file;
    let host = known.seen.host.get(name);
    let before = host.is_none_or(|host| host == b"new\n");
    let mut exports = known.seen.journal.changes.iter().filter_map(|change| match change {
        Change::ArtifactExported { export, .. } => Some(export.size_bytes),
        _ => None,
    });
    let recorded = exports.next_back();
    // A job that was killed may have left a part of its artifact, and that is what an `exec` exports.
    let cut =
        !has_succeeded(known.seen) && host.is_some_and(|host| bytes.as_bytes().starts_with(host));
    let whole = holds(&known.seen.host, &file) || cut;
    wrong(found, whole || before, || format!("{name} on the host is neither old nor new"));
    let size = host.map(|host| host.len() as u64);
    if recorded.is_some() && (recorded != size || !whole) || known.acknowledged() && !whole {
        found.push(Finding::Lost(format!("{name} was exported, and is not on the host")));
    }
}

fn has_succeeded(seen: &Seen) -> bool {
    seen.job.as_ref().is_some_and(|job| job.package.text("/facts/job_status") == "success")
}

fn files(known: &Known<'_>, found: &mut Vec<Finding>) {
    let (scenario, seen) = (known.scenario, known.seen);
    if let Some(file) = scenario.taken {
        taken(known, file, found);
    }
    if !matches!(seen.state.as_str(), "ready" | "completed") {
        return;
    }
    let Some(tree) = &seen.tree else {
        found.push(Finding::Lost("the workspace can be read, and has no disk".into()));
        return;
    };
    for file in scenario.kept {
        if !holds(tree, file) {
            found.push(Finding::Lost(format!("{} is not in the workspace", file.0)));
        }
    }
    let landed = scenario.landed.iter().filter(|file| holds(tree, file)).count();
    let all = landed == scenario.landed.len();
    wrong(found, landed == 0 || all, || {
        format!("{landed} of {} files have landed", scenario.landed.len())
    });
    let names = |change: &Change| match change {
        Change::InputsAdded { inputs } => inputs.iter().any(|input| {
            let (path, bytes) = scenario.landed[0];
            input.destination.as_bytes() == path.as_bytes()
                && input.size_bytes == bytes.len() as u64
        }),
        _ => false,
    };
    if !scenario.landed.is_empty() && !is_over(scenario) {
        let recorded = seen.journal.holds(names);
        wrong(found, recorded == all, || {
            format!("files on record: {recorded}; files there: {all}")
        });
    }
}

/// The old file and the new one have the same name, and the first is on record.
fn is_over(scenario: &Scenario) -> bool {
    scenario.target.contains(&"--overwrite")
}

/// What a job made is in the workspace or on the host, unless it was given up.
fn artifact(known: &Known<'_>, found: &mut Vec<Finding>) {
    let (scenario, seen) = (known.scenario, known.seen);
    let Some(artifact) = &scenario.artifact else { return };
    let inside = seen.tree.as_ref().is_some_and(|tree| holds(tree, artifact));
    let outside = scenario.taken.is_some_and(|taken| holds(&seen.host, &taken));
    let given_up = scenario.gives_up && seen.state == "destroyed";
    if has_succeeded(seen) && !inside && !outside && !given_up {
        found.push(Finding::Lost(format!("{} is gone", artifact.0)));
    }
}

fn what_follows(known: &Known<'_>, found: &mut Vec<Finding>) {
    let seen = known.seen;
    let allowed = again_allowed(known);
    let (code, reason) = (seen.again.code, seen.again.text("/reason"));
    let reports = known.scenario.again == Again::Report
        && code.is_some_and(|code| is_answer(&seen.again, code))
        && seen.again.answer.get("code").is_none();
    wrong(found, reports || allowed.iter().any(|(c, r)| code == Some(*c) && reason == *r), || {
        format!("called again on {}, the target says {}", seen.again_from, seen.again.answer)
    });
    if let Some(usable) = &seen.usable {
        let said = usable.answer.pointer("/evidence/0/excerpt").and_then(Value::as_str);
        wrong(found, usable.code == Some(0) && said == Some("usable\n"), || {
            format!("it is ready, and a command in it says {}", usable.answer)
        });
    }
    if let Some(destroyed) = &seen.destroyed {
        wrong(found, destroyed.code == Some(0), || {
            format!("it cannot be destroyed: {}", destroyed.answer)
        });
    }
}

fn in_tree(host: &Files, taken: &File) -> bool {
    taken.0.contains('/') && holds(host, taken)
}

/// Returns the exit codes and the reasons that the target may have when it is called again.
fn again_allowed(known: &Known<'_>) -> Vec<(i32, &'static str)> {
    let (seen, from) = (known.seen, known.seen.again_from.as_str());
    let job_code = match known.scenario.job.map(|truth| truth.status) {
        Some("failure") => 6,
        _ => 0,
    };
    let landed = seen.tree.as_ref().is_some_and(|tree| {
        !known.scenario.landed.is_empty()
            && known.scenario.landed.iter().all(|file| holds(tree, file))
    });
    match (known.scenario.again, from) {
        (Again::Create, "unknown") => vec![(0, "")],
        (Again::Create, _) => vec![(1, "workspace_exists")],
        (Again::Put, _) if landed => vec![(1, "destination_exists")],
        (Again::Run, _) if seen.job.is_some() => vec![(1, "job_exists")],
        (Again::Run, _) if landed => vec![(1, "destination_exists")],
        (Again::Run, _) => vec![(job_code, "")],
        // Its disk holds inputs and is on no record: `doctor` names it, and it is left to a person.
        (Again::Exec, "unknown") if landed => vec![(1, "workspace_left")],
        (Again::Exec, "unknown") => vec![(job_code, "")],
        (Again::Exec, _) => vec![(1, "workspace_exists")],
        // A tree is never replaced by another one.
        (Again::Export, _)
            if known.scenario.taken.is_some_and(|taken| in_tree(&seen.host, &taken)) =>
        {
            vec![(1, "destination_is_directory")]
        }
        (Again::Destroy, "destroyed") => vec![(1, "workspace_destroyed")],
        // Nothing is in flight any more, or it is ended now.
        (Again::Report, _) => Vec::new(),
        (Again::Look, _) => vec![(0, ""), (5, "")],
        _ => vec![(0, "")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Kill;
    use bailiwick_contract::journal::IntentKind;
    use serde_json::json;

    fn scenario(name: &str) -> &'static Scenario {
        crate::scenario::ALL.iter().find(|one| one.name == name).expect("a scenario")
    }

    fn case(name: &str, point: &str, who: Who) -> Case {
        let (scenario, point, when) = (name.to_owned(), point.to_owned(), "after".to_owned());
        Case { scenario, point, nth: 1, when, who }
    }

    fn ended(code: i32, answer: Value) -> Ended {
        Ended { code: Some(code), answer }
    }

    fn tree(files: &[File]) -> Files {
        files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.as_bytes().to_vec())).collect()
    }

    fn job(status: &str, reason: &str, exit: Option<i64>, output: &str) -> JobSeen {
        let facts = json!({"job_status": status, "reason": reason, "exit_status": exit});
        let package = ended(0, json!({"facts": facts}));
        JobSeen { package, output: Some(output.into()) }
    }

    /// What is seen of `run` when its caller was killed and the job ended all the same.
    fn seen(recorded: &[&str]) -> Seen {
        let recorded = recorded.iter().map(|job| (*job).to_owned()).collect();
        let job = job("success", "", Some(0), "begun\nended\n");
        Seen {
            kills: vec![Some(Kill { victims: 1, recorded })],
            first: ended(0, json!({"status": "success"})),
            state: "ready".into(),
            output_after: job.output.clone(),
            job: Some(job),
            tree: Some(tree(&[("in.txt", "old\n"), ("out", "old\n"), ("witness", "")])),
            again: ended(1, json!({"code": 1, "reason": "job_exists"})),
            again_from: "ready".into(),
            usable: Some(ended(0, json!({"evidence": [{"excerpt": "usable\n"}]}))),
            destroyed: Some(ended(0, json!({"status": "success"}))),
            ..Seen::default()
        }
    }

    #[track_caller]
    fn check(name: &str, point: &str, who: Who, seen: &Seen, wanted: &[&str]) {
        let found = judge(scenario(name), &case(name, point, who), seen);
        let shown: Vec<String> = found.iter().map(|finding| format!("{finding:?}")).collect();
        assert_eq!(shown.len(), wanted.len(), "{shown:?}");
        for (shown, wanted) in shown.iter().zip(wanted) {
            assert!(shown.starts_with(wanted), "{shown} against {wanted}");
        }
    }

    #[test]
    fn a_job_that_ended_while_its_caller_was_dead_is_as_it_should_be() {
        check("run", "effect:run", Who::Caller, &seen(&["job-t"]), &[]);
    }

    #[test]
    fn a_point_that_is_not_passed_is_wrong_whatever_else_is_seen() {
        let seen = Seen { kills: vec![None], ..seen(&[]) };
        check("run", "effect:run", Who::Caller, &seen, &["Wrong(\"the point was not passed"]);
    }

    #[test]
    fn an_end_that_was_recorded_is_never_another_one() {
        let mut seen = seen(&["job-t"]);
        let other = job("infrastructure_failure", "supervisor_lost", None, "begun\nended\n");
        seen.job = Some(other);
        check("run", "effect:run", Who::Caller, &seen, &["Lost(\"the job reads"]);
        // Not recorded, but nobody had killed the supervisor.
        seen.kills = vec![Some(Kill { victims: 1, recorded: Vec::new() })];
        check("run", "effect:run.gate", Who::Caller, &seen, &["Wrong(\"the job reads"]);
        check("run", "effect:run.gate", Who::All, &seen, &[]);
    }

    #[test]
    fn a_job_that_ran_did_start() {
        let mut seen = seen(&[]);
        let other = job("infrastructure_failure", "never_started", None, "");
        (seen.output_after, seen.job) = (other.output.clone(), Some(other));
        let wanted = ["Wrong(\"the job reads"];
        check("run", "effect:run.gate", Who::Caller, &seen, &wanted);
        seen.tree = Some(tree(&[("in.txt", "old\n")]));
        check("run", "effect:run.gate", Who::Caller, &seen, &[]);
        check("run", "supervisor:go", Who::Caller, &seen, &wanted);
    }

    #[test]
    fn output_is_lost_where_a_byte_of_it_is() {
        let mut seen = seen(&["job-t"]);
        seen.job = Some(job("success", "", Some(0), "begun\n"));
        seen.output_after = Some(b"begun\n".to_vec());
        check("run", "effect:run", Who::Caller, &seen, &["Lost(\"the output of the job"]);
        seen.output_after = None;
        let wanted = ["Lost(\"the output of the job", "Lost(\"the output changed"];
        check("run", "effect:run", Who::Caller, &seen, &wanted);
    }

    #[test]
    fn what_the_caller_was_told_is_what_is_on_record() {
        let mut seen = seen(&["job-t"]);
        let told = json!({"status": "failure", "facts": {"job_status": "failure"},
                          "provenance": {"job_id": "job-t"}});
        seen.target = ended(6, told);
        check("run", "effect:run", Who::Init, &seen, &["Wrong(\"the job was told to be failure"]);
    }

    #[test]
    fn half_a_batch_and_a_forgotten_workspace_are_found() {
        let mut seen = Seen { job: None, output_after: None, ..seen(&[]) };
        seen.tree = Some(tree(&[("in.txt", "old\n"), ("d/a", "a\n")]));
        seen.again = ended(0, json!({"status": "success"}));
        check("put-folder", "effect:write", Who::Caller, &seen, &["Wrong(\"1 of 3 files"]);
        seen.state = "unknown".into();
        let wanted = ["Wrong(\"the workspace is unknown", "Lost(\"the workspace is on no record"];
        check("put-folder", "effect:write", Who::Caller, &seen, &wanted);
    }

    #[test]
    fn what_is_left_or_open_or_in_the_way_is_found() {
        let mut seen = seen(&["job-t"]);
        seen.debris = vec!["control.sock".into()];
        seen.journal.open = vec![IntentKind::Run];
        seen.usable = Some(ended(1, json!({"code": 1, "reason": "workspace_busy"})));
        let wanted = ["Wrong(\"open intents", "Wrong(\"it is ready", "Wrong(\"left: control.sock"];
        check("run", "effect:run", Who::Caller, &seen, &wanted);
    }

    #[test]
    fn an_export_that_was_acknowledged_is_on_the_host() {
        let mut seen = seen(&["job-t"]);
        seen.target = ended(0, json!({"status": "success"}));
        seen.again = ended(0, json!({"status": "success"}));
        let wanted = ["Lost(\"taken.txt was exported"];
        check("export", "effect:read", Who::Supervisor, &seen, &wanted);
        seen.host = tree(&[("taken.txt", "old\n")]);
        check("export", "effect:read", Who::Supervisor, &seen, &[]);
    }
}
