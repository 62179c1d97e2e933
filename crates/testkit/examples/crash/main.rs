//! The crash matrix: every durable append and every effect × {before, after} × SIGKILL of {caller, supervisor, init, all}.
//!
//! `cargo xtask crash` builds the programs with fault points and runs this. Each scenario is first played undisturbed, which
//! says what points it passes and who is alive there; then once for each case, in a home of its own; and what is found is
//! judged by a pure model. A point that no scenario passes fails, unless it is named here with a reason.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its report is what it is for")]

mod case;
mod look;
mod model;
mod report;
mod scenario;
mod stage;

use crate::case::{Case, Who};
use crate::model::Finding;
use crate::report::{Played, Result, Row};
use crate::scenario::Scenario;
use bailiwick_testkit::User;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What was asked for.
struct Options {
    program: String,
    only: Option<String>,
    users: Vec<User>,
    jobs: usize,
    list: bool,
    verbose: bool,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("crash: {why}");
            return ExitCode::FAILURE;
        }
    };
    let played: Vec<Played> = options.users.iter().map(|user| play(&options, *user)).collect();
    report::finish(&played, options.only.is_none())
}

fn options(words: impl Iterator<Item = String>) -> std::result::Result<Options, String> {
    let mut options = Options {
        program: String::new(),
        only: None,
        users: vec![User::all()[0]],
        jobs: 2,
        list: false,
        verbose: false,
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` wants a value"));
        match word.as_str() {
            "--program" => options.program = value()?,
            "--only" => options.only = Some(value()?),
            "--jobs" => options.jobs = value()?.parse().map_err(|_| "`--jobs` wants a number")?,
            "--user" => options.users = users(&value()?)?,
            "--list" => options.list = true,
            "--verbose" => options.verbose = true,
            _ => return Err(format!("`{word}` is not known here")),
        }
    }
    if options.program.is_empty() || options.jobs == 0 {
        return Err("it is run by `cargo xtask crash`".into());
    }
    Ok(options)
}

fn users(name: &str) -> std::result::Result<Vec<User>, String> {
    let users: Vec<User> = match name {
        "root" => vec![User::Root],
        "ordinary" => vec![User::Ordinary],
        "all" => User::all().to_vec(),
        _ => return Err("`--user` takes root, ordinary or all".into()),
    };
    match users.iter().all(|user| User::all().contains(user)) {
        true => Ok(users),
        false => Err("only root can play as root".into()),
    }
}

/// Plays the matrix as one user.
fn play(options: &Options, user: User) -> Played {
    let wanted = |scenario: &&Scenario| {
        let name = options.only.as_ref().and_then(|only| only.split(':').next());
        name.is_none_or(|name| name == scenario.name)
    };
    let scenarios: Vec<&Scenario> = scenario::ALL.iter().filter(wanted).collect();
    let mut played = Played { user, ..Played::default() };
    let mut cases = Vec::new();
    for scenario in scenarios {
        let (row, own) = traced(scenario, user, options, &mut played);
        played.rows.push(row);
        cases.extend(own.into_iter().map(|case| (scenario, case)));
    }
    if options.list {
        cases.iter().for_each(|(_, case)| println!("{case}"));
        return played;
    }
    println!("{} cases as {user:?}", cases.len());
    played.results = in_parallel(&cases, options, user);
    played
}

/// Plays a scenario undisturbed, and makes its part of the matrix.
fn traced(
    scenario: &Scenario,
    user: User,
    options: &Options,
    played: &mut Played,
) -> (Row, Vec<Case>) {
    let (trace, target) = stage::trace(scenario, user, &options.program);
    assert!(target.code.is_some(), "{}: {}", scenario.name, target.answer);
    let mut row = Row { scenario: scenario.name, passings: trace.passed.len(), ..Row::default() };
    let mut cases = Vec::new();
    for passing in &trace.passed {
        for who in Who::ALL {
            let case = Case {
                scenario: scenario.name.to_owned(),
                point: passing.point.clone(),
                nth: passing.nth,
                when: passing.when.clone(),
                who,
            };
            if options.only.as_ref().is_some_and(|only| !Case::covers(only, &case)) {
                continue;
            }
            if passing.has(who) {
                cases.push(case);
            } else {
                row.not_applicable += 1;
            }
        }
    }
    row.cases = cases.len();
    played.declared.extend(trace.declared);
    played.passed.extend(trace.passed.into_iter().map(|passing| passing.point));
    (row, cases)
}

fn in_parallel(cases: &[(&Scenario, Case)], options: &Options, user: User) -> Vec<Result> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((scenario, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(scenario, case, options, user);
                    let mut results = results.lock().expect("no thread has panicked");
                    results.push(result);
                    report::progress(results.len(), cases.len(), results.last());
                }
            });
        }
    });
    results.into_inner().expect("no thread has panicked")
}

fn one(scenario: &Scenario, case: &Case, options: &Options, user: User) -> Result {
    let play = || {
        let seen = stage::play(scenario, user, &options.program, &case.plan());
        let findings = model::judge(scenario, case, &seen);
        if options.verbose {
            println!("{case}\n{seen:#?}");
        }
        let missed = seen
            .kills
            .last()
            .is_some_and(|kill| kill.as_ref().is_some_and(|kill| kill.victims == 0));
        (findings, missed)
    };
    // Something that hangs or cannot be read is a wrong state of its own.
    let (findings, missed) = catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (vec![Finding::Wrong(text.unwrap_or_default())], false)
    });
    Result { case: case.clone(), findings, missed }
}
