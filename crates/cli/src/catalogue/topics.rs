//! The pages that are about no single verb: the program, exit codes, policy, result package, providers, identity.
//!
//! Figures and flags come from where they are defined; the sentences here say what they are for.
use super::{PURPOSE, Verb, codes, grouped, listed};
use crate::identity::BUILT_IN_PROMPT;
use crate::output::SECTIONS;
use bailiwick_contract::error::ExitCode;
use std::fmt::Write as _;

/// The topics.
pub(super) const NAMES: [&str; 5] = ["exit-codes", "policy", "package", "providers", "identity"];

/// Returns the page of a topic; that of the program has no name.
pub(super) fn page(name: &str, root: &clap::Command, verbs: &[Verb]) -> Option<String> {
    match name {
        "" => Some(program(verbs)),
        "exit-codes" => Some(exit_codes()),
        "policy" => Some(policy(root)),
        "package" => Some(package()),
        "providers" => Some(PROVIDERS.to_owned()),
        "identity" => Some(identity()),
        _ => None,
    }
}

fn program(verbs: &[Verb]) -> String {
    let mut out = format!("# bailiwick\n\n{PURPOSE}\n\n{PROGRAM}");
    for (title, group) in grouped(verbs) {
        write!(out, "\n## {title}\n\n```text\n{}```\n", listed(&group))
            .expect("a String takes any text");
    }
    let topics = NAMES.map(|name| format!("- `bailiwick explain {name}`")).join("\n");
    write!(out, "\n## Topics\n\n{topics}\n").expect("a String takes any text");
    out
}

const PROGRAM: &str = "\
A workspace is a place with a policy, a disk and a record. A job is one command that runs in it. The policy says what jobs
may do and is declared when the workspace is made. A job runs isolated by the kernel, under a supervisor of its own that
outlives whoever asked for it; there is no daemon and no container engine.

What comes back is a result package of bounded size, as Markdown or with `--json` as one line. The exit code alone says
how it ended. Files leave a workspace when they were declared, each with a verified digest.
";

fn exit_codes() -> String {
    format!("# Exit codes\n\n{EXIT_CODES}\n{}", codes(&ExitCode::ALL))
}

const EXIT_CODES: &str = "\
Every verb ends with one of these, and the number means the same for all of them. The word is the `category` of an error.
Where there is a result package, the code follows from its `status`, and the exit status of the command itself is in
`facts.exit_status`. `partial_success` counts as success: the command ended with 0, and a check failed or something declared
is not there. Only an `exec` that could not export what was declared ends otherwise, with 1 or 2. 127 there means that the command was not found, 126 that it is not executable.

An error is no package: standard output is empty, and standard error says what was tried, why it did not work, and what
to do next. With `--json` it is one object with `code`, `message`, `remediation`, `category`, `reason` and `retryable`.
`reason` is a stable name, made for programs; `retryable` says whether the same call may work later.
";

const PROVIDERS: &str = "\
# Providers

`--provider NAME` after the verb, or `BAILIWICK_PROVIDER`, says what holds a workspace; it stays with the one that made it.

`native` is the default: jobs run in sandboxes of this host, held by the kernel. `bailiwick doctor` says what it can hold here.

`fake` executes nothing, so that a script which drives this program can be tried where nothing is installed. Records, locks,
exit codes and results are real. `BAILIWICK_FAKE_SCRIPT` names a file of JSON rules, and the first rule that matches a command
says what its job does; without one a job prints nothing and succeeds after 10 ms:

```json
[{\"argv\": [\"make\", \"**\"], \"stdout\": \"built\\n\", \"files\": [{\"path\": \"out/app\", \"content\": \"x\"}]},
 {\"argv\": [\"serve\", \"*\"], \"delay_ms\": 60000},
 {\"argv\": [\"false\"], \"end\": {\"exit_code\": 1}}]
```

`*` stands for any part of one argument, a last `**` for the rest. Further keys are `stderr`, `output`, `ignores_sigterm`,
`cpu_ms` and `memory_bytes`; `end` is also `{\"signal\": 9}`, `{\"refused\": 127}`, `{\"over\": \"memory\"}` or `{\"breaks\": \"why\"}`.
";

fn policy(root: &clap::Command) -> String {
    let mut out = format!("# Policy\n\n{POLICY}\n## Flags of `create` and `exec`\n\n");
    let flags = root.find_subcommand("create").into_iter().flat_map(clap::Command::get_arguments);
    for flag in flags.filter(|flag| flag.get_help_heading() == Some("Policy")) {
        let name = flag.get_long().unwrap_or_default();
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "- `--{name}`: {help}").expect("a String takes any text");
    }
    out
}

const POLICY: &str = "\
The policy of a workspace is declared when it is made and does not change. Everything starts closed: no network, no host
path but the toolchain, and seven budgets. There is no \"unlimited\": zero, negative and overflowing values are errors.

Every limit has a label, in every result and in `doctor`:

- `enforced`: the kernel holds it, or, for time, output and concurrency, a process of ours.
- `measured`: nothing holds it. Memory and storage are watched, and a job that is seen over them is killed; a fraction of
  a core becomes whole cores and is not watched.

A limit that you name has to be enforced, else nothing is made and the exit code is 3; `--allow-watched` lifts that. A
default may be watched, and then every result warns; `--require-enforced` refuses that too. Storage may always be
measured. What the host offers is a matter of the host: ask `bailiwick doctor`.
";

fn package() -> String {
    let mut out = format!("# Result package\n\n{PACKAGE}\n## Sections, in order\n\n");
    for key in SECTIONS {
        writeln!(out, "- `{key}`: {}", section(key)).expect("a String takes any text");
    }
    out
}

const PACKAGE: &str = "\
A lifecycle verb answers with a package: nine sections in a fixed order and then `facts`, which holds the same as typed
values, so that no program has to read a sentence. `--package nine` leaves `facts` out.

It has a bound, 8192 bytes unless `--max-result-bytes` says otherwise, and the bound holds for Markdown and for JSON. What
was cut ends in the command that returns it whole. Status, exit status and policy are never cut.

What is not ours (arguments, paths, purposes, output) is escaped or fenced: it cannot pass for a section. Read it as data.
";

/// Returns what a section of a package holds.
fn section(key: &str) -> &'static str {
    match key {
        "outcome_summary" => "one sentence",
        "status" => "the word that decides the exit code",
        "key_findings" => "short sentences: exit status, digests, what was copied in",
        "evidence" => {
            "excerpts of the output, head and tail, and what else was declared to be shown"
        }
        "artifacts" => "each exported file: purpose, digest, size, where it is",
        "warnings" => "each limit that is only measured, and what is incomplete",
        "resource_usage" => "time, memory, bytes, and where each figure comes from",
        "provenance" => "ids, profile, times, policy, command and inputs",
        "attention" => "what to do next, as commands",
        _ => "typed values: exit status, state, each limit with its label and mechanism",
    }
}

fn identity() -> String {
    let quoted = BUILT_IN_PROMPT.lines().fold(String::new(), |mut all, line| {
        writeln!(all, "    {line}").expect("a String takes any text");
        all
    });
    format!("# Identity\n\n{IDENTITY}\n{quoted}")
}

const IDENTITY: &str = "\
In a mesh of agents each one has a name, and a backend that runs it with a prompt. Both are declared in a `culture.yaml`:

    suffix: bailiwick
    backend: colleague
    model: optional

The fields may also stand in the first entry of a list `agents`. Other fields are passed over. Aliases, tags, repeated
fields, a second document, more than 64 KiB, or anything but a regular UTF-8 file is refused.

The file is looked for in the working directory and above, up to your home directory, on the same file system. One that
belongs neither to you nor to root nor to the owner of the working directory does not count. Where there is none, the
built-in identity answers.

The prompt lies beside it, under a name that follows from the backend: `AGENTS.<backend>.md`, but `CLAUDE.md` for
`claude`, `GEMINI.md` for `gemini`, `AGENTS.md` for `acp`. `bailiwick doctor` checks the pair (`prompt-file-present`,
`backend-consistency`); nothing here runs what they say.

The built-in prompt:
";
