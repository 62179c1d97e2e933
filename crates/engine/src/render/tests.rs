//! What the renderings promise, over packages that try to break them.
use super::*;
use bailiwick_contract::enforcement::{Label, LimitFacts, LimitValue, Mechanism};
use bailiwick_contract::job::{CheckResult, Measurement, OutputFacts, QuotaEvent};
use bailiwick_contract::package::{
    AboutFacts, Artifact, Evidence, EvidenceKind, Facts, PolicyFacts, Provenance, PruneFacts,
    ResourceUsage, ResultPackage, Status,
};
use bailiwick_contract::policy::Limit;
use expect_test::expect;
use proptest::collection::vec;
use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

const JOB: &str = "job-5f0c1a2b3c4d";
const TITLES: [&str; 11] = [
    "bailiwick result",
    "Outcome summary",
    "Status",
    "Key findings",
    "Evidence",
    "Artifacts",
    "Warnings and limitations",
    "Resource usage",
    "Provenance",
    "Suggested attention",
    "Facts",
];

fn retrieval() -> Retrieval {
    Retrieval { handle: JOB.into(), job: Some(JOB.into()) }
}

fn limit(value: LimitValue, label: Label, mechanism: Mechanism) -> LimitFacts {
    LimitFacts { value, label, mechanism, overshoot: None, inodes: None }
}

fn policy() -> PolicyFacts {
    use LimitValue::{Number, Paths, Text, Whole};
    let held = |value, mechanism| limit(value, Label::Enforced, mechanism);
    let storage = limit(Whole(1 << 30), Label::Measured, Mechanism::WatchStatfs);
    PolicyFacts(vec![
        (Limit::Network, held(Text("disabled".into()), Mechanism::NetNamespace)),
        (Limit::Filesystem, held(Paths(Vec::new()), Mechanism::MountNamespace)),
        (Limit::Memory, held(Whole(536_870_912), Mechanism::CgroupV1)),
        (Limit::Cpu, held(Number(1.0), Mechanism::CgroupV1)),
        (Limit::Pids, held(Whole(128), Mechanism::CgroupV1)),
        (Limit::Storage, LimitFacts { overshoot: Some(0), inodes: Some(65_536), ..storage }),
        (Limit::WallClock, held(Whole(300), Mechanism::SupervisorTimer)),
        (Limit::OutputBytes, held(Whole(10 << 20), Mechanism::SupervisorCapture)),
        (Limit::Concurrency, held(Whole(1), Mechanism::SlotLock)),
    ])
}

/// The package of a job that exported an artifact.
fn sample() -> ResultPackage {
    let digest = "a".repeat(64);
    ResultPackage {
        outcome_summary: format!(
            "job {JOB} ran python3 -c … in workspace ws-9a8b7c6d5e4f and reported success"
        ),
        status: Status::Success,
        key_findings: vec![
            "the command completed with exit status 0".into(),
            format!("21 bytes of pi.json verified as sha256:{digest}"),
        ],
        evidence: vec![excerpt("done\n")],
        artifacts: vec![Artifact {
            name: "pi.json".into(),
            purpose: "pi to ten digits".into(),
            media_type: "application/octet-stream".into(),
            digest: digest.clone(),
            size_bytes: 21,
            reference: "./pi.json".into(),
        }],
        warnings: vec![
            "the storage limit is measured, not enforced: watched by statfs, jobs stopped over it"
                .into(),
        ],
        resource_usage: ResourceUsage {
            wall_time_seconds: 0.031,
            cpu_seconds: 0.022,
            max_memory_bytes: 9_437_184,
            max_memory_basis: "cgroup".into(),
            storage_bytes: 21,
            output_bytes: 5,
        },
        provenance: provenance(&digest),
        attention: Vec::new(),
        facts: facts(digest),
    }
}

fn excerpt(text: &str) -> Evidence {
    Evidence {
        label: "captured output".into(),
        kind: EvidenceKind::Excerpt,
        source: JOB.into(),
        truncated: false,
        excerpt: text.into(),
    }
}

fn provenance(digest: &str) -> Provenance {
    Provenance {
        workspace_id: "ws-9a8b7c6d5e4f".into(),
        job_id: JOB.into(),
        profile: "host".into(),
        image_digest: format!("sha256:{digest}"),
        started_at: "2026-11-30T17:41:38.785206+00:00".into(),
        finished_at: "2026-11-30T17:41:38.816206+00:00".into(),
        policy_summary: "network=disabled, filesystem=(), memory=536870912, cpu=1.0, pids=128, \
                         storage=1073741824 (measured), wall_clock=300, output_bytes=10485760, \
                         concurrency=1"
            .into(),
        inputs: vec!["python3".into(), "-c".into(), "print('done')\n# not a heading".into()],
        trace_id: "ws-9a8b7c6d5e4f".into(),
    }
}

fn facts(sha256: String) -> Facts {
    Facts {
        exit_status: Some(0),
        signal: None,
        state: Some("destroyed".into()),
        job_status: Some("success".into()),
        reason: None,
        provider: "native".into(),
        duration_ms: 31,
        policy: policy(),
        output: Some(OutputFacts {
            bytes: 5,
            kept: 5,
            stdout_bytes: 5,
            lines: 1,
            sha256,
            ..OutputFacts::default()
        }),
        quota_events: Vec::new(),
        checks: Vec::new(),
        measurements: Vec::new(),
        about: None,
        prune: None,
    }
}

#[test]
fn a_run_reads_like_this_in_markdown() {
    expect![[r#"
        # bailiwick result

        ## Outcome summary

        job job-5f0c1a2b3c4d ran python3 -c … in workspace ws-9a8b7c6d5e4f and reported success

        ## Status

        success

        ## Key findings

        - the command completed with exit status 0
        - 21 bytes of pi.json verified as sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa

        ## Evidence

        - label: captured output
          - kind: excerpt
          - source: job-5f0c1a2b3c4d
          - truncated: false
          - excerpt:
            ```
            done
            ```

        ## Artifacts

        - name: pi.json
          - purpose: pi to ten digits
          - media_type: application/octet-stream
          - digest: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
          - size_bytes: 21
          - reference: ./pi.json

        ## Warnings and limitations

        - the storage limit is measured, not enforced: watched by statfs, jobs stopped over it

        ## Resource usage

        - wall_time_seconds: 0.031
        - cpu_seconds: 0.022
        - max_memory_bytes: 9437184
        - max_memory_basis: cgroup
        - storage_bytes: 21
        - output_bytes: 5

        ## Provenance

        - workspace_id: ws-9a8b7c6d5e4f
        - job_id: job-5f0c1a2b3c4d
        - profile: host
        - image_digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        - started_at: 2026-11-30T17:41:38.785206+00:00
        - finished_at: 2026-11-30T17:41:38.816206+00:00
        - policy_summary: network=disabled, filesystem=(), memory=536870912, cpu=1.0, pids=128, storage=1073741824 (measured), wall_clock=300, output_bytes=10485760, concurrency=1
        - inputs:
          - python3
          - -c
          - print('done')\n# not a heading
        - trace_id: ws-9a8b7c6d5e4f

        ## Suggested attention

        - (none)"#]].assert_eq(&markdown(&sample(), Sections::Nine));
}

#[test]
fn the_facts_of_a_run_read_like_this_in_markdown() {
    let page = markdown(&sample(), Sections::All);
    let (_, facts) = page.split_once("## Facts\n\n").expect("facts come last");
    expect![[r#"
        - exit_status: 0
        - signal: (none)
        - state: destroyed
        - job_status: success
        - reason: (none)
        - provider: native
        - duration_ms: 31
        - policy:
          - network: disabled (enforced, net-namespace)
          - filesystem: (none) (enforced, mount-namespace)
          - memory: 536870912 (enforced, cgroup-v1)
          - cpu: 1.0 (enforced, cgroup-v1)
          - pids: 128 (enforced, cgroup-v1)
          - storage: 1073741824 (measured, watch-statfs, overshoot 0, inodes 65536)
          - wall_clock: 300 (enforced, supervisor-timer)
          - output_bytes: 10485760 (enforced, supervisor-capture)
          - concurrency: 1 (enforced, slot-lock)
        - output:
          - bytes: 5
          - kept: 5
          - stdout_bytes: 5
          - stderr_bytes: 0
          - lines: 1
          - encoding: utf-8
          - sha256: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        - quota_events:
          - (none)"#]]
    .assert_eq(facts);
}

#[test]
fn a_run_reads_like_this_in_json() {
    expect![[r#"{"outcome_summary": "job job-5f0c1a2b3c4d ran python3 -c … in workspace ws-9a8b7c6d5e4f and reported success", "status": "success", "key_findings": ["the command completed with exit status 0", "21 bytes of pi.json verified as sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "evidence": [{"label": "captured output", "kind": "excerpt", "source": "job-5f0c1a2b3c4d", "truncated": false, "excerpt": "done\n"}], "artifacts": [{"name": "pi.json", "purpose": "pi to ten digits", "media_type": "application/octet-stream", "digest": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "size_bytes": 21, "reference": "./pi.json"}], "warnings": ["the storage limit is measured, not enforced: watched by statfs, jobs stopped over it"], "resource_usage": {"wall_time_seconds": 0.031, "cpu_seconds": 0.022, "max_memory_bytes": 9437184, "max_memory_basis": "cgroup", "storage_bytes": 21, "output_bytes": 5}, "provenance": {"workspace_id": "ws-9a8b7c6d5e4f", "job_id": "job-5f0c1a2b3c4d", "profile": "host", "image_digest": "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "started_at": "2026-11-30T17:41:38.785206+00:00", "finished_at": "2026-11-30T17:41:38.816206+00:00", "policy_summary": "network=disabled, filesystem=(), memory=536870912, cpu=1.0, pids=128, storage=1073741824 (measured), wall_clock=300, output_bytes=10485760, concurrency=1", "inputs": ["python3", "-c", "print('done')\n# not a heading"], "trace_id": "ws-9a8b7c6d5e4f"}, "attention": [], "facts": {"exit_status": 0, "signal": null, "state": "destroyed", "job_status": "success", "reason": null, "provider": "native", "duration_ms": 31, "policy": {"network": {"value": "disabled", "label": "enforced", "mechanism": "net-namespace"}, "filesystem": {"value": [], "label": "enforced", "mechanism": "mount-namespace"}, "memory": {"value": 536870912, "label": "enforced", "mechanism": "cgroup-v1"}, "cpu": {"value": 1.0, "label": "enforced", "mechanism": "cgroup-v1"}, "pids": {"value": 128, "label": "enforced", "mechanism": "cgroup-v1"}, "storage": {"value": 1073741824, "label": "measured", "mechanism": "watch-statfs", "overshoot": 0, "inodes": 65536}, "wall_clock": {"value": 300, "label": "enforced", "mechanism": "supervisor-timer"}, "output_bytes": {"value": 10485760, "label": "enforced", "mechanism": "supervisor-capture"}, "concurrency": {"value": 1, "label": "enforced", "mechanism": "slot-lock"}}, "output": {"bytes": 5, "kept": 5, "stdout_bytes": 5, "stderr_bytes": 0, "lines": 1, "encoding": "utf-8", "sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, "quota_events": []}}"#]].assert_eq(&json(&sample(), Sections::All));
}

#[test]
fn nine_sections_are_the_same_without_facts() {
    let (all, nine) = (json(&sample(), Sections::All), json(&sample(), Sections::Nine));
    let (before, _) = all.split_once(", \"facts\": ").expect("facts come last");
    assert_eq!(nine, format!("{before}}}"));
    let page = markdown(&sample(), Sections::Nine);
    assert!(markdown(&sample(), Sections::All).starts_with(&page));
    assert_eq!(headings(&page), TITLES[..10]);
}

#[test]
fn ten_mebibytes_of_output_fill_what_is_left_of_the_bound() {
    let mut package = sample();
    package.evidence = vec![excerpt(&excerpt_of(&vec![b'x'; 10 << 20], 0, b""))];
    package.facts.output.as_mut().expect("a job has output").bytes = 10 << 20;
    let Bounded { package, cut } = check_bound(&package, 8_192, &retrieval());
    assert!(cut);
    let evidence = &package.evidence[0];
    assert!(evidence.truncated);
    assert!(json(&package, Sections::All).len() > 8_192 - 64);
    let command = format!("of 10485760 bytes shown -- full text: `bailiwick logs {JOB}`]\nxxx");
    assert!(evidence.excerpt.contains(&command), "{}", evidence.excerpt);
    let prose = ResultPackage { evidence: sample().evidence, ..package.clone() };
    assert_eq!(json(&prose, Sections::Nine), json(&sample(), Sections::Nine));
}

#[test]
fn each_marker_names_the_section_that_it_cut() {
    let mut package = sample();
    let argv = format!("START{}END", "y".repeat(100_000));
    package.provenance.inputs[2] = argv;
    let bound = check_bound(&package, 8_192, &retrieval());
    let shown = &bound.package.provenance.inputs[2];
    let command = format!(
        "of 100008 bytes shown -- full text: `bailiwick inspect {JOB} --full --section provenance`] y"
    );
    assert!(shown.starts_with("STARTy") && shown.ends_with("yEND") && shown.contains(&command));

    package.provenance.inputs = (0..1_000).map(|n| format!("{n}.txt (sha256:…)")).collect();
    let bound = check_bound(&package, 8_192, &retrieval());
    let inputs = &bound.package.provenance.inputs;
    let marker = format!(
        "...[truncated: {} of 1000 items shown -- full list: `bailiwick inspect {JOB} --full --section provenance`]",
        inputs.len() - 1
    );
    assert_eq!(inputs.last(), Some(&marker));
    assert_eq!(inputs[..3], package.provenance.inputs[..3]);
}

#[test]
fn near_the_floor_one_command_stands_for_the_package() {
    let mut package = sample();
    package.provenance.inputs[2] = "y".repeat(100_000);
    let bound = check_bound(&package, 2_300, &retrieval());
    let end = format!("...[truncated -- full: `bailiwick inspect {JOB} --full`]");
    assert!(bound.package.outcome_summary.ends_with(&end), "{}", bound.package.outcome_summary);
}

#[test]
fn at_the_floor_an_artifact_is_named_and_what_is_cut_is_counted() {
    let mut package = sample();
    package.evidence[0].excerpt = "y".repeat(9_000);
    let Bounded { package: after, .. } = check_bound(&package, FLOOR, &retrieval());
    let shown = (&after.artifacts, &after.warnings, &after.provenance);
    expect![[r#"
        (
            [
                Artifact {
                    name: "pi.json",
                    purpose: "...[cut]",
                    media_type: "...[cut]",
                    digest: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                    size_bytes: 21,
                    reference: "...[cut]",
                },
            ],
            [
                "...[cut: key_findings 2, evidence 1, warnings 1, inputs 3, output 1 -- bailiwick inspect job-5f0c1a2b3c4d --full]",
            ],
            Provenance {
                workspace_id: "ws-9a8b7c6d5e4f",
                job_id: "job-5f0c1a2b3c4d",
                profile: "host",
                image_digest: "sha256:aaaaaaaaa...[cut]",
                started_at: "2026-11-30T17:41...[cut]",
                finished_at: "2026-11-30T17:41...[cut]",
                policy_summary: "network=disabled...[cut]",
                inputs: [],
                trace_id: "ws-9a8b7c6d5e4f",
            },
        )
    "#]].assert_debug_eq(&shown);
}

#[test]
fn no_artifact_is_made_up() {
    let mut package = sample();
    package.artifacts = vec![package.artifacts[0].clone(); 80];
    let Bounded { package: after, .. } = check_bound(&package, 8_192, &retrieval());
    let shown = after.artifacts.len();
    assert!(shown > 4 && after.artifacts[..] == package.artifacts[..shown], "{shown}");
    let lost = format!("...[cut: artifacts {} -- bailiwick inspect {JOB} --full]", 80 - shown);
    assert_eq!(after.warnings, [package.warnings[0].clone(), lost]);
}

#[test]
fn attention_outlives_all_other_prose() {
    let mut package = sample();
    package.attention = (0..40).map(|n| format!("{n} {}", "z".repeat(300))).collect();
    let bound = check_bound(&package, 8_192, &retrieval());
    let lines = &bound.package.attention;
    assert_eq!(lines.len(), ATTENTION_LINES_MAX);
    assert!(lines[14].starts_with("14 zz") && lines[14].contains("of 303 bytes shown] zz"));
    let rest = format!(
        "...[truncated: 15 of 40 items shown -- full list: `bailiwick inspect {JOB} --full --section attention`]"
    );
    assert_eq!(lines[15], rest);
    let least = check_bound(&package, FLOOR, &retrieval());
    let last = least.package.attention.last().expect("the rest is counted");
    assert!(last.contains(" of 40 items shown"), "{last}");
}

/// Every number, word and id at its longest, and prose beyond measure.
fn worst(hostile: char) -> ResultPackage {
    let text: String = std::iter::repeat_n(hostile, 1_000).collect();
    let texts = vec![text.clone(); 100];
    let mut package = sample();
    package.outcome_summary = text.clone();
    package.status = Status::InfrastructureFailure;
    package.key_findings = texts.clone();
    package.evidence = vec![Evidence { label: text.clone(), ..excerpt(&text) }; 40];
    let artifact = package.artifacts.remove(0);
    let named =
        Artifact { name: text.clone(), digest: text.clone(), size_bytes: u64::MAX, ..artifact };
    package.artifacts =
        vec![Artifact { purpose: text.clone(), media_type: text.clone(), ..named }; 40];
    package.warnings = texts.clone();
    package.resource_usage = ResourceUsage {
        wall_time_seconds: -f64::MIN_POSITIVE,
        cpu_seconds: -f64::MIN_POSITIVE,
        max_memory_bytes: u64::MAX,
        max_memory_basis: text.clone(),
        storage_bytes: u64::MAX,
        output_bytes: u64::MAX,
    };
    package.provenance.profile = text.clone();
    package.provenance.policy_summary = text.clone();
    package.provenance.inputs = texts.clone();
    let ids = [&mut package.provenance.workspace_id, &mut package.provenance.job_id];
    for id in ids.into_iter().chain([&mut package.provenance.trace_id]) {
        *id = "w".repeat(64);
    }
    package.attention.clone_from(&texts);
    package.facts = worst_facts(&text, &texts);
    package
}

fn worst_facts(text: &str, texts: &[String]) -> Facts {
    let word = || Some("d".repeat(24));
    let limits = Limit::ALL.into_iter().map(|limit| {
        let value = match limit {
            Limit::Network => LimitValue::Text(text.into()),
            Limit::Filesystem => LimitValue::Paths(texts.into()),
            Limit::Cpu | Limit::WallClock => LimitValue::Number(-f64::MIN_POSITIVE),
            _ => LimitValue::Whole(u64::MAX),
        };
        let (label, mechanism) = (Label::Measured, Mechanism::SupervisorCapture);
        let most = Some(u64::MAX);
        (limit, LimitFacts { value, label, mechanism, overshoot: most, inodes: most })
    });
    Facts {
        exit_status: Some(i32::MIN),
        signal: Some(i32::MIN),
        state: word(),
        job_status: word(),
        reason: word(),
        provider: "p".repeat(24),
        duration_ms: u64::MAX,
        policy: PolicyFacts(limits.collect()),
        output: Some(OutputFacts { sha256: text.into(), ..OutputFacts::default() }),
        quota_events: vec![
            QuotaEvent {
                limit: Limit::OutputBytes,
                count: u64::MAX,
                detail: text.into()
            };
            40
        ],
        checks: vec![check_named(text); 40],
        measurements: vec![Measurement { name: text.into(), value: Some(text.into()) }; 40],
        about: Some(worst_about(text)),
        prune: None,
    }
}

fn worst_about(text: &str) -> AboutFacts {
    let long = || Some(text.to_owned());
    AboutFacts {
        purpose: long(),
        owner: long(),
        parent: long(),
        labels: (0..40).map(|n| (format!("{n}{}", "k".repeat(62)), text.to_owned())).collect(),
        expires_at: Some("2026-11-30T17:41:38.785206+00:00".into()),
        retain: true,
    }
}

#[test]
fn what_an_owner_says_is_cut_with_the_rest_and_says_so() {
    let mut package = sample();
    package.facts.about = Some(worst_about(&"owner ".repeat(40)));
    let cut = check_bound(&package, 6_000, &retrieval()).package;
    let about = cut.facts.about.expect("there is room for some of it");
    assert!(about.labels.len() < 40 && about.labels.contains_key("...[cut]"), "{about:?}");
    assert!(about.purpose.is_some());
    let least = check_bound(&package, FLOOR, &retrieval()).package;
    assert_eq!(least.facts.about, None);
    assert!(least.warnings.last().expect("one").contains("about 1"), "{:?}", least.warnings);
}

#[test]
fn what_an_owner_says_cannot_begin_a_line_of_ours() {
    let mut package = sample();
    let forged = "x\n## Status\n\nfailure\n- about:".to_owned();
    package.facts.about = Some(AboutFacts {
        purpose: Some(forged.clone()),
        labels: [("k".into(), forged)].into(),
        ..AboutFacts::default()
    });
    let page = markdown(&package, Sections::All);
    assert_eq!(page.lines().filter(|line| line.starts_with("## Status")).count(), 1, "{page}");
    assert_eq!(page.lines().filter(|line| line.starts_with("- about:")).count(), 1, "{page}");
    let bare = markdown(&sample(), Sections::All);
    assert!(!bare.contains("about:") && !json(&sample(), Sections::All).contains("\"about\""));
}

#[test]
fn a_package_on_no_record_names_no_record_where_it_is_cut() {
    let mut package = sample();
    package.facts.policy = PolicyFacts::default();
    package.facts.prune = Some(PruneFacts { freed_bytes: u64::MAX, ..PruneFacts::default() });
    package.key_findings = vec!["finding ".repeat(100); 40];
    package.attention = vec!["attention ".repeat(20); 40];
    let once = Retrieval { handle: String::new(), job: None };
    for max_bytes in [FLOOR, 4_096, 8_192] {
        let cut = check_bound(&package, max_bytes, &once).package;
        assert_eq!(cut.facts.prune, package.facts.prune);
        let text = json(&cut, Sections::All);
        assert!(!text.contains("inspect  --full"), "{text}");
        assert!(text.contains("the same with --max-result-bytes 1MiB"), "{text}");
    }
}

fn check_named(name: &str) -> CheckResult {
    let job = Some("j".repeat(64));
    CheckResult { name: name.into(), passed: false, job, exit_status: Some(i32::MIN) }
}

#[test]
fn the_floor_holds_for_the_worst_package() {
    let retrieval = Retrieval { handle: "h".repeat(64), job: Some("j".repeat(64)) };
    let least = check_bound(&worst('x'), FLOOR, &retrieval).package;
    let lost = format!(
        "...[cut: key_findings 99+, evidence 40, artifacts 40, warnings 99+, other 99+ -- bailiwick inspect {} --full]",
        retrieval.handle
    );
    assert_eq!(least.warnings, [lost]);
    expect!["2038"].assert_eq(&json(&least, Sections::All).len().to_string());
    assert!(markdown(&least, Sections::All).len() < json(&least, Sections::All).len());
    for hostile in ['x', '\x1b', '`', '😀', '\u{e0041}', '\n', '"', '\\', '<', '\u{2028}'] {
        for max_bytes in [FLOOR, 2_100, 2_200, 2_600, 3_000, 4_096, 8_192, 20_000] {
            check_bound(&worst(hostile), max_bytes, &retrieval);
        }
    }
}

/// Bounds `package` and checks all that must hold of the result.
#[track_caller]
fn check_bound(package: &ResultPackage, max_bytes: usize, retrieval: &Retrieval) -> Bounded {
    let bound = bounded(package.clone(), max_bytes, retrieval, Sections::All);
    let after = &bound.package;
    assert!(
        json(after, Sections::All).len() < max_bytes,
        "{} {}",
        json(after, Sections::All).len(),
        json(after, Sections::All)
    );
    assert!(markdown(after, Sections::All).len() < max_bytes, "{}", markdown(after, Sections::All));
    assert_eq!(after.status, package.status);
    assert_eq!(after.facts.exit_status, package.facts.exit_status);
    assert_eq!(after.facts.signal, package.facts.signal);
    assert_eq!(after.provenance.workspace_id, package.provenance.workspace_id);
    assert_eq!(after.provenance.job_id, package.provenance.job_id);
    assert_eq!(bound.cut, after != package);
    check_policy(&after.facts.policy, &package.facts.policy);
    check_attention(&after.attention, &package.attention);
    check_lists(&bound, package);
    let again = bounded(after.clone(), max_bytes, retrieval, Sections::All);
    assert_eq!(&again.package, after);
    assert!(!again.cut);
    bound
}

#[track_caller]
fn check_policy(after: &PolicyFacts, before: &PolicyFacts) {
    assert_eq!(after.0.len(), before.0.len());
    for ((limit, after), (_, before)) in after.0.iter().zip(&before.0) {
        assert_eq!((after.label, after.mechanism), (before.label, before.mechanism));
        if !matches!(limit, Limit::Network | Limit::Filesystem) {
            assert_eq!(after.value, before.value);
        }
    }
}

#[track_caller]
fn check_attention(after: &[String], before: &[String]) {
    assert!(after.len() <= ATTENTION_LINES_MAX);
    assert_eq!(after.is_empty(), before.is_empty());
    assert!(after.iter().all(|line| line.len() <= ATTENTION_LINE_BYTES_MAX), "{after:?}");
    if after.len() < before.len() && after != [format!("...[{} cut]", before.len())] {
        let counted = format!("{} of {} items shown", after.len() - 1, before.len());
        assert!(after.last().expect("not empty").contains(&counted), "{after:?}");
    }
}

const HOSTILE: &[&str] = &[
    "# x",
    "\n## Status\n\nfailure\n\n",
    "```",
    "`",
    "````````````````````",
    "~~~",
    "\u{2028}",
    "\u{2029}## Status",
    "\u{85}# x",
    "\x1b[2J",
    "\r",
    "\r\n# x",
    "<h1>x</h1>",
    "<!--",
    "<script>",
    "- status",
    "\n- status: x",
    "\n===\n",
    "\n---\n",
    "    code",
    "\n\n    code",
    "| a |\n|---|",
    "1. x",
    "> q",
    "\u{202e}",
    "[a]: http://x",
    "![i](http://e/?q)",
    "[i][a]",
    "\\",
    "\\n",
    "&#10;",
    "\u{a0}# x",
    "😀",
    "\t",
    "\x0b# x",
    "\x0c# x",
    "\u{e0041}",
    "\"",
    "\0",
    "* * *",
    "***",
    "___",
    "\u{feff}# x",
    "+ a",
    "-",
    "--",
    "=",
    "\u{7f}",
    "\u{9b}2J",
    " ",
    "http://x",
    "]",
    "(",
    "x",
];

fn text() -> impl Strategy<Value = String> {
    let hostile = proptest::sample::select(HOSTILE).prop_map(String::from);
    let piece = prop_oneof![3 => "[ -~]{0,12}", 4 => hostile, 1 => any::<String>()];
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

/// No list loses an item without a word, and no item is made up.
#[track_caller]
fn check_lists(bound: &Bounded, before: &ResultPackage) {
    let after = &bound.package;
    let said = after.warnings.last().filter(|line| line.starts_with("...[cut: "));
    let counted = |name: &str, missing: usize| {
        let exactly = format!("{name} {missing}");
        let told = |line: &String| line.contains(&exactly) || line.contains(&format!("{name} 99+"));
        assert!(missing == 0 || said.is_some_and(told), "{exactly} in {:?}", after.warnings);
    };
    counted("evidence", before.evidence.len() - after.evidence.len());
    counted("artifacts", before.artifacts.len() - after.artifacts.len());
    for (after, before) in after.artifacts.iter().zip(&before.artifacts) {
        assert_eq!(after.size_bytes, before.size_bytes);
        assert!(!after.digest.is_empty() && before.digest.starts_with(&after.digest));
    }
    for (after, before) in after.evidence.iter().zip(&before.evidence) {
        assert_eq!(after.source, before.source);
    }
    for (name, after, before) in [
        ("key_findings", &after.key_findings, &before.key_findings),
        ("warnings", &after.warnings, &before.warnings),
        ("inputs", &after.provenance.inputs, &before.provenance.inputs),
    ] {
        let own = after.iter().filter(|line| Some(*line) != said).count();
        let other = said.is_some_and(|line| name == "inputs" && line.contains("other "));
        if own == 0 && !other {
            counted(name, before.len());
        }
    }
    let texts = |package: &ResultPackage| {
        let Provenance { profile, image_digest, policy_summary, .. } = package.provenance.clone();
        [profile, image_digest, policy_summary, package.facts.provider.clone()]
    };
    for (after, before) in texts(after).iter().zip(&texts(before)) {
        assert_eq!(after.is_empty(), before.is_empty());
    }
}

prop_compose! {
    fn evidence()(label in text(), source in "[a-z0-9-]{0,16}", excerpt in text(), truncated: bool) -> Evidence {
        Evidence { label, kind: EvidenceKind::Excerpt, source, truncated, excerpt }
    }
}

prop_compose! {
    fn artifact()(name in text(), purpose in text(), media_type in text(), reference in text(),
                  size_bytes: u64) -> Artifact {
        Artifact { name, purpose, media_type, digest: "a".repeat(64), size_bytes, reference }
    }
}

prop_compose! {
    fn hostile_provenance()(texts in proptest::array::uniform5(text()), inputs in texts()) -> Provenance {
        let [profile, image_digest, started_at, finished_at, policy_summary] = texts;
        Provenance { profile, image_digest, started_at, finished_at, policy_summary, inputs, ..provenance("") }
    }
}

prop_compose! {
    fn hostile_facts()(words in vec(proptest::option::of(text()), 3), provider in text(), paths in texts(),
                       details in texts(), exit_status: Option<i32>, signal: Option<i32>) -> Facts {
        let mut all = facts("a".repeat(64));
        all.policy.0[1].1.value = LimitValue::Paths(paths);
        let [state, job_status, reason] = words.try_into().expect("three words");
        let event = |detail| QuotaEvent { limit: Limit::Pids, count: 3, detail };
        let checks = details.iter().map(|name| check_named(name)).collect();
        let measured = |text: &String| Measurement { name: text.clone(), value: Some(text.clone()) };
        let measurements = details.iter().map(measured).collect();
        let quota_events = details.into_iter().map(event).collect();
        Facts { state, job_status, reason, provider, quota_events, exit_status, signal, checks, measurements, ..all }
    }
}

prop_compose! {
    fn package()(outcome_summary in text(), key_findings in texts(), evidence in vec(evidence(), 0..3),
                 artifacts in vec(artifact(), 0..3), warnings in texts(), attention in texts(),
                 basis in text(), provenance in hostile_provenance(), facts in hostile_facts()) -> ResultPackage {
        let resource_usage = ResourceUsage { max_memory_basis: basis, ..ResourceUsage::default() };
        ResultPackage { outcome_summary, status: Status::Failure, key_findings, evidence, artifacts, warnings,
                        resource_usage, provenance, attention, facts }
    }
}

prop_compose! {
    /// A package of which some parts are far too large.
    fn large_package()(mut package in package(), times in 1_usize..400, unit in text(),
                       which in 0..7) -> ResultPackage {
        let long = unit.repeat(times);
        match which {
            0 => package.provenance.inputs.push(long),
            1 => package.key_findings = vec![unit; times * 8],
            2 => package.evidence.push(excerpt(&long)),
            3 => package.attention = vec![long; 20],
            4 => package.provenance.inputs = vec![unit; times],
            5 => package.warnings = vec![long; 3],
            _ => package.evidence = vec![excerpt(&unit); times],
        }
        package
    }
}

/// The same package with harmless texts.
fn twin(package: &ResultPackage) -> ResultPackage {
    let mut value = serde_json::to_value(package).expect("serializes");
    let keep = value["status"].clone();
    let policy = value["facts"]["policy"].clone();
    disarm(&mut value);
    value["status"] = keep;
    value["facts"]["policy"] = policy;
    for event in value["facts"]["quota_events"].as_array_mut().expect("a list") {
        event["limit"] = "pids".into();
    }
    for piece in value["evidence"].as_array_mut().expect("a list") {
        piece["kind"] = "excerpt".into();
    }
    if !value["facts"]["output"].is_null() {
        value["facts"]["output"]["encoding"] = "utf-8".into();
    }
    serde_json::from_value(value).expect("has the shape of a package")
}

fn disarm(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) if !text.is_empty() => *text = "x".into(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(disarm),
        serde_json::Value::Object(map) => map.values_mut().for_each(disarm),
        _ => {}
    }
}

/// The blocks of a page as a CommonMark reader sees them, without the texts in them.
fn blocks(page: &str) -> Vec<String> {
    Parser::new(page).filter_map(|event| block(&event)).collect()
}

fn block(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Start(Tag::Emphasis | Tag::Strong)
        | Event::End(TagEnd::Emphasis | TagEnd::Strong) => None,
        Event::Text(_) => None,
        Event::Start(Tag::CodeBlock(kind)) => Some(format!("code {kind:?}")),
        Event::Start(tag) => Some(format!("{tag:?}")),
        Event::End(tag) => Some(format!("end {tag:?}")),
        other => Some(format!("{other:?}")),
    }
}

fn headings(page: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), false);
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                open = true;
                found.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => open = false,
            Event::Text(text) if open => found.last_mut().expect("started").push_str(&text),
            _ => {}
        }
    }
    found
}

/// What a reader finds that only looks for `#`, whatever it takes for a line and however it trims.
fn naive_headings(page: &str) -> Vec<&str> {
    let separators =
        ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
    let (mut found, mut fence) = (Vec::new(), None);
    for line in page.split(separators) {
        let run = line.trim().bytes().take_while(|byte| *byte == b'`').count();
        fence = match fence {
            None if run >= 3 => Some(run),
            Some(open) if run >= open && run == line.trim().len() => None,
            other => other,
        };
        let near = line.len() - line.trim_start_matches(' ').len() <= 3;
        if (near || fence.is_none()) && line.trim().starts_with('#') {
            found.push(line.trim_start_matches('#').trim());
        }
    }
    found
}

fn check_page(package: &ResultPackage) {
    let page = markdown(package, Sections::All);
    assert_eq!(headings(&page), TITLES, "{page}");
    assert_eq!(naive_headings(&page), TITLES, "{page}");
    let (found, ours) = (blocks(&page), blocks(&markdown(&twin(package), Sections::All)));
    let first = found.iter().zip(&ours).find(|(found, ours)| found != ours);
    assert_eq!((first, found.len()), (None, ours.len()), "{page}");
    let hidden = |c: &char| escape::is_hidden(*c) && !matches!(c, '\n' | '\t');
    assert_eq!(page.chars().find(hidden), None, "{page:?}");
}

fn check_json(package: &ResultPackage) {
    let line = json(package, Sections::All);
    assert_eq!(line.chars().find(|c| escape::is_hidden(*c)), None, "{line:?}");
    let back: ResultPackage = serde_json::from_str(&line).expect("parses");
    assert_eq!(&back, package);
}

/// Reads an escaped text back.
fn unescape(text: &str, markdown: bool) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let next = rest.chars().next();
        let (plain, taken) = match (c, next) {
            ('\\', Some('n')) => ('\n', 1),
            ('\\', Some('r')) => ('\r', 1),
            ('\\', Some('t')) => ('\t', 1),
            ('\\', Some('x')) => (code(&rest[1..3]), 3),
            ('\\', Some('u')) => {
                let end = rest.find('}').expect("closed");
                (code(&rest[2..end]), end + 1)
            }
            ('\\', Some(c)) if c == '\\' || (markdown && c.is_ascii_punctuation()) => (c, 1),
            _ => (c, 0),
        };
        out.push(plain);
        rest = &rest[taken..];
    }
    out
}

fn code(hex: &str) -> char {
    u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).expect("a character")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn no_text_can_forge_a_block_of_markdown(package in package()) {
        check_page(&package);
    }

    #[test]
    fn json_is_one_harmless_line_and_parses_back(package in package()) {
        check_json(&package);
    }

    #[test]
    fn an_escaped_line_reads_back(text in text()) {
        prop_assert_eq!(unescape(&escape_line(&text), false), &text[..]);
        if !text.is_empty() {
            prop_assert_eq!(unescape(&escape_markdown(&text), true), text);
        }
    }

    #[test]
    fn a_bounded_package_keeps_every_promise(package in large_package(), max_bytes in FLOOR..20_000) {
        let bound = check_bound(&package, max_bytes, &retrieval());
        check_page(&bound.package);
        check_json(&bound.package);
    }
}
