//! Says what a plan does, one step a line, in the order in which it happens.
//!
//! It reads the plan and the tables that the mechanism itself uses, and asks the host nothing: what is not in them is not said.
//! Who prints the lines, and beside what, is the caller's business.
use crate::facts::CgroupFacts;
use crate::payload::{Stage, wanted_limits};
use crate::plan::{GroupPlan, INSIDE_ID, LandlockAccess, LandlockRule, Plan, WatchPlan};
use crate::seccomp::{Errno, Group, TABLE, Verdict};
use crate::sys::clone::Namespaces;
use bailiwick_contract::bytes::ByteString;
use rustix::process::{Resource, Rlimit};

/// Returns the lines.
#[must_use]
pub fn lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    trees(plan, &mut lines);
    let namespaces: Vec<_> = Namespaces::SANDBOX.names().collect();
    lines.push(format!("clone init into new namespaces: {}", namespaces.join(", ")));
    let (uid, gid) = (plan.identity.uid, plan.identity.gid);
    lines.push(format!("map user {INSIDE_ID} inside to {uid} outside, and nobody else"));
    lines.push(format!("map group {INSIDE_ID} inside to {gid} outside, and nobody else"));
    lines.push("deny setgroups".into());
    groups(plan, &mut lines);
    lines.push("ask for init's death with the supervisor's".into());
    lines.extend(plan.steps.iter().map(|step| format!("init: {step}")));
    payload(plan, &mut lines);
    watch(&plan.watch, &mut lines);
    lines
}

fn trees(plan: &Plan, lines: &mut Vec<String>) {
    let by = if plan.identity.by_root { "root" } else { "init" };
    if plan.identity.by_root {
        lines.push("leave root's supplementary groups".into());
    }
    for (index, source) in plan.sources.iter().enumerate() {
        let owner = source.owner.map_or_else(String::new, |(uid, gid)| {
            format!(", its owner {uid}:{gid} shown as the job's")
        });
        lines.push(format!("{by}: clone the mount {source}{owner} as source {index}"));
    }
}

fn groups(plan: &Plan, lines: &mut Vec<String>) {
    let Some(groups) = &plan.groups else {
        lines.push("make no control group".into());
        return;
    };
    let version = match groups.facts {
        CgroupFacts::V1 { .. } => "version 1",
        CgroupFacts::V2 { .. } => "version 2",
        CgroupFacts::Absent => "no version",
    };
    lines.push(format!("enter a control group ({version}): {}", limits_of(groups).join(", ")));
}

fn limits_of(groups: &GroupPlan) -> Vec<String> {
    let memory = groups.memory_bytes.map(|bytes| format!("memory {bytes} bytes"));
    let pids = groups.pids.map(|pids| format!("pids {pids}, init included"));
    let cpu = groups.cpu_milli.map(|milli| format!("cpu {milli} thousandths of a core"));
    [memory, pids, cpu].into_iter().flatten().collect()
}

fn payload(plan: &Plan, lines: &mut Vec<String>) {
    let mut payload = |line: String| lines.push(format!("payload: {line}"));
    payload("begin a session, with pipes as output and nothing of the supervisor's open".into());
    payload(format!("start in {}", shown(&plan.payload.cwd)));
    for (resource, limit) in wanted_limits(&plan.rlimits) {
        payload(format!(
            "limit {}, or what the supervisor has if that is less",
            limited(resource, limit)
        ));
    }
    if !plan.affinity.is_empty() {
        payload(format!("run on {} processor(s), which the job's id chooses", plan.affinity.len()));
    }
    payload("drop all capabilities and set no_new_privs".into());
    if plan.landlock.is_empty() {
        payload("no Landlock rules: the kernel has none that hold".into());
    }
    for rule in &plan.landlock {
        payload(landlock(rule));
    }
    for group in TABLE {
        payload(seccomp(group));
    }
    payload("filter: ENOSYS for all others, and death for those of another architecture".into());
    payload(format!("{} until the intent is durable", Stage::Gate.doing()));
    let argv: Vec<_> = plan.payload.argv.iter().map(shown).collect();
    payload(format!("execute {}", argv.join(" ")));
}

fn shown(bytes: &ByteString) -> String {
    bytes.as_bytes().escape_ascii().to_string()
}

/// getrlimit(2) names them.
fn limited(resource: Resource, limit: Rlimit) -> String {
    let name = match resource {
        Resource::Core => "core",
        Resource::Fsize => "fsize",
        Resource::Nofile => "nofile",
        Resource::Memlock => "memlock",
        Resource::Rtprio => "rtprio",
        Resource::Nice => "nice",
        Resource::Nproc => "nproc",
        Resource::Data => "data",
        _ => "another resource",
    };
    let value = |value: Option<u64>| value.map_or_else(|| "none".into(), |value| value.to_string());
    if limit.current == limit.maximum {
        return format!("{name} to {}", value(limit.maximum));
    }
    format!("{name} to {}, which may be raised to {}", value(limit.current), value(limit.maximum))
}

fn landlock(rule: &LandlockRule) -> String {
    let access = match rule.access {
        LandlockAccess::Read => "read and execute",
        LandlockAccess::ReadWriteFile => "read, and write to what is there",
        LandlockAccess::All => "everything but making devices",
    };
    format!("Landlock allows below {}: {access}", shown(&rule.path))
}

fn seccomp(group: &Group) -> String {
    let count = group.calls.len();
    let what = match group.verdict {
        Verdict::Allow => "allow".into(),
        Verdict::Refuse(errno) => format!("{} for", name_of(errno)),
        Verdict::AllowWhen(_, errno) => {
            format!("by their arguments allow or {} for", name_of(errno))
        }
        Verdict::RefuseWhen(_, errno) => format!("by their arguments {} or allow", name_of(errno)),
    };
    format!("filter: {what} {count} system call(s): {}", group.reason)
}

const fn name_of(errno: Errno) -> &'static str {
    match errno {
        Errno::NotPermitted => "EPERM",
        Errno::NotImplemented => "ENOSYS",
        Errno::FamilyNotSupported => "EAFNOSUPPORT",
    }
}

fn watch(watch: &WatchPlan, lines: &mut Vec<String>) {
    let mut line = |text: String| lines.push(format!("supervisor: {text}"));
    line(format!("end the job after {} ms", watch.wall_clock_ms));
    line(format!("keep {} bytes of output", watch.output_bytes));
    if let Some(bytes) = watch.memory_bytes {
        line(format!("watch memory and end the job over {bytes} bytes"));
    }
    if let Some(pids) = watch.pids {
        line(format!("report when there are {pids} processes"));
    }
    let (bytes, inodes) = (watch.storage_bytes, watch.inodes);
    line(format!("watch the disk and end the job over {bytes} bytes or {inodes} inodes"));
}
