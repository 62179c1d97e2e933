//! The Markdown form: nine sections, then `Facts`.
//!
//! Each value stands on one line and is escaped, and each excerpt is fenced, so that every heading, list item and fence
//! is ours for a CommonMark reader and for one that only looks at the starts of lines. It cuts nothing.
use super::Sections;
use super::escape::{push_block, push_fenced, push_inline};
use bailiwick_contract::enforcement::{LimitFacts, LimitValue};
use bailiwick_contract::job::{CheckResult, Measurement, OutputFacts, QuotaEvent};
use bailiwick_contract::package::{
    AboutFacts, Artifact, Evidence, Facts, PolicyFacts, Provenance, PruneFacts, ResourceUsage,
    ResultPackage,
};
use bailiwick_contract::policy::Limit;
use std::fmt::{self, Write as _};

/// Returns the package as Markdown, without a final newline.
#[must_use]
pub fn markdown(package: &ResultPackage, sections: Sections) -> String {
    let mut page = Page(String::with_capacity(4_096));
    page.0.push_str("# bailiwick result\n");
    page.section("Outcome summary");
    page.block("", &package.outcome_summary);
    page.section("Status");
    page.block("", package.status.name());
    page.section("Key findings");
    page.texts("", &package.key_findings);
    page.section("Evidence");
    page.list("", &package.evidence, Page::evidence);
    page.section("Artifacts");
    page.list("", &package.artifacts, Page::artifact);
    page.section("Warnings and limitations");
    page.texts("", &package.warnings);
    page.section("Resource usage");
    page.usage(&package.resource_usage);
    page.section("Provenance");
    page.provenance(&package.provenance);
    page.section("Suggested attention");
    page.texts("", &package.attention);
    if sections == Sections::All {
        page.section("Facts");
        page.facts(&package.facts);
    }
    page.0.pop();
    page.0
}

struct Page(String);

impl Page {
    fn section(&mut self, title: &str) {
        self.0.extend(["\n## ", title, "\n\n"]);
    }

    /// A text that begins a block, after `before`.
    fn block(&mut self, before: &str, text: &str) {
        self.0.push_str(before);
        push_block(&mut self.0, text);
        self.0.push('\n');
    }

    fn texts(&mut self, indent: &str, texts: &[String]) {
        self.list(indent, texts, |page, text| {
            page.0.push_str(indent);
            page.block("- ", text);
        });
    }

    fn list<T>(&mut self, indent: &str, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        if items.is_empty() {
            self.0.extend([indent, "- (none)\n"]);
        }
        items.iter().for_each(|item| each(self, item));
    }

    /// A pair whose value is text that is not ours.
    fn text(&mut self, lead: &str, key: &str, text: &str) {
        self.0.extend([lead, key, ": "]);
        if text.is_empty() {
            self.0.push_str("(none)");
        } else {
            push_inline(&mut self.0, text);
        }
        self.0.push('\n');
    }

    /// A pair whose value is a number or a word of ours.
    fn word(&mut self, lead: &str, key: &str, word: impl fmt::Display) {
        writeln!(self.0, "{lead}{key}: {word}").expect("a String takes any text");
    }

    fn optional<T: fmt::Display>(&mut self, lead: &str, key: &str, value: Option<T>) {
        match value {
            Some(value) => self.word(lead, key, value),
            None => self.word(lead, key, "(none)"),
        }
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let Evidence { label, kind, source, truncated, excerpt } = evidence;
        self.text("- ", "label", label);
        self.word("  - ", "kind", kind.name());
        self.text("  - ", "source", source);
        self.word("  - ", "truncated", truncated);
        if excerpt.is_empty() {
            self.text("  - ", "excerpt", "");
        } else {
            self.0.push_str("  - excerpt:\n");
            push_fenced(&mut self.0, "    ", excerpt);
        }
    }

    fn artifact(&mut self, artifact: &Artifact) {
        let Artifact { name, purpose, media_type, digest, size_bytes, reference } = artifact;
        self.text("- ", "name", name);
        self.text("  - ", "purpose", purpose);
        self.text("  - ", "media_type", media_type);
        self.text("  - ", "digest", digest);
        self.word("  - ", "size_bytes", size_bytes);
        self.text("  - ", "reference", reference);
    }

    fn usage(&mut self, usage: &ResourceUsage) {
        let ResourceUsage {
            wall_time_seconds,
            cpu_seconds,
            max_memory_bytes,
            max_memory_basis,
            storage_bytes,
            output_bytes,
        } = usage;
        self.word("- ", "wall_time_seconds", format_args!("{wall_time_seconds:?}"));
        self.word("- ", "cpu_seconds", format_args!("{cpu_seconds:?}"));
        self.word("- ", "max_memory_bytes", max_memory_bytes);
        self.text("- ", "max_memory_basis", max_memory_basis);
        self.word("- ", "storage_bytes", storage_bytes);
        self.word("- ", "output_bytes", output_bytes);
    }

    fn provenance(&mut self, provenance: &Provenance) {
        let Provenance {
            workspace_id,
            job_id,
            profile,
            image_digest,
            started_at,
            finished_at,
            policy_summary,
            inputs,
            trace_id,
        } = provenance;
        self.text("- ", "workspace_id", workspace_id);
        self.text("- ", "job_id", job_id);
        self.text("- ", "profile", profile);
        self.text("- ", "image_digest", image_digest);
        self.text("- ", "started_at", started_at);
        self.text("- ", "finished_at", finished_at);
        self.text("- ", "policy_summary", policy_summary);
        self.0.push_str("- inputs:\n");
        self.texts("  ", inputs);
        self.text("- ", "trace_id", trace_id);
    }

    fn facts(&mut self, facts: &Facts) {
        let Facts {
            exit_status,
            signal,
            state,
            job_status,
            reason,
            provider,
            duration_ms,
            policy,
            output,
            quota_events,
            checks,
            measurements,
            about,
            prune,
        } = facts;
        self.optional("- ", "exit_status", *exit_status);
        self.optional("- ", "signal", *signal);
        self.text("- ", "state", state.as_deref().unwrap_or_default());
        self.text("- ", "job_status", job_status.as_deref().unwrap_or_default());
        self.text("- ", "reason", reason.as_deref().unwrap_or_default());
        self.text("- ", "provider", provider);
        self.word("- ", "duration_ms", duration_ms);
        self.policy(policy);
        self.output(output.as_ref());
        self.0.push_str("- quota_events:\n");
        self.list("  ", quota_events, Self::quota_event);
        // As in JSON, a package without declarations does not speak of them.
        if !checks.is_empty() {
            self.0.push_str("- checks:\n");
            self.list("  ", checks, Self::check);
        }
        if !measurements.is_empty() {
            self.0.push_str("- measurements:\n");
            self.list("  ", measurements, Self::measurement);
        }
        if let Some(about) = about {
            self.about(about);
        }
        if let Some(prune) = prune {
            self.prune(*prune);
        }
    }

    fn about(&mut self, about: &AboutFacts) {
        let AboutFacts { purpose, owner, parent, labels, expires_at, retain } = about;
        self.0.push_str("- about:\n");
        let texts = [("purpose", purpose), ("owner", owner), ("parent", parent)];
        for (key, text) in texts.into_iter().chain([("expires_at", expires_at)]) {
            if let Some(text) = text {
                self.text("  - ", key, text);
            }
        }
        if *retain {
            self.word("  - ", "retain", retain);
        }
        if !labels.is_empty() {
            self.0.push_str("  - labels:\n");
            for (key, value) in labels {
                self.0.push_str("    - ");
                push_inline(&mut self.0, key);
                self.text("", "", value);
            }
        }
    }

    fn prune(&mut self, prune: PruneFacts) {
        let PruneFacts { applied, workspaces, kept, outputs, tombstones, leftovers, freed_bytes } =
            prune;
        self.0.push_str("- prune:\n");
        self.word("  - ", "applied", applied);
        self.word("  - ", "workspaces", workspaces);
        self.word("  - ", "kept", kept);
        self.word("  - ", "outputs", outputs);
        self.word("  - ", "tombstones", tombstones);
        self.word("  - ", "leftovers", leftovers);
        self.word("  - ", "freed_bytes", freed_bytes);
    }

    fn policy(&mut self, policy: &PolicyFacts) {
        self.0.push_str("- policy:\n");
        self.list("  ", &policy.0, |page, (limit, facts)| page.limit(*limit, facts));
    }

    /// One line: `  - memory: 536870912 (enforced, cgroup-v1)`. It always ends in words of ours.
    fn limit(&mut self, limit: Limit, facts: &LimitFacts) {
        let LimitFacts { value, label, mechanism, overshoot, inodes } = facts;
        self.0.extend(["  - ", limit.name(), ": "]);
        self.limit_value(value);
        self.0.extend([" (", label.name(), ", ", mechanism.name()]);
        for (key, value) in [("overshoot", overshoot), ("inodes", inodes)] {
            if let Some(value) = value {
                write!(self.0, ", {key} {value}").expect("a String takes any text");
            }
        }
        self.0.push_str(")\n");
    }

    fn limit_value(&mut self, value: &LimitValue) {
        match value {
            LimitValue::Whole(number) => {
                write!(self.0, "{number}").expect("a String takes any text");
            }
            LimitValue::Number(number) => {
                write!(self.0, "{number:?}").expect("a String takes any text");
            }
            LimitValue::Text(text) => push_inline(&mut self.0, text),
            LimitValue::Paths(paths) if paths.is_empty() => self.0.push_str("(none)"),
            LimitValue::Paths(paths) => {
                for (index, path) in paths.iter().enumerate() {
                    self.0.push_str(if index == 0 { "" } else { ", " });
                    push_inline(&mut self.0, path);
                }
            }
        }
    }

    fn output(&mut self, output: Option<&OutputFacts>) {
        let Some(output) = output else {
            self.0.push_str("- output: (none)\n");
            return;
        };
        let OutputFacts { bytes, kept, stdout_bytes, stderr_bytes, lines, encoding, sha256 } =
            output;
        self.0.push_str("- output:\n");
        self.word("  - ", "bytes", bytes);
        self.word("  - ", "kept", kept);
        self.word("  - ", "stdout_bytes", stdout_bytes);
        self.word("  - ", "stderr_bytes", stderr_bytes);
        self.word("  - ", "lines", lines);
        self.word("  - ", "encoding", encoding.name());
        self.text("  - ", "sha256", sha256);
    }

    fn quota_event(&mut self, event: &QuotaEvent) {
        let QuotaEvent { limit, count, detail } = event;
        self.word("  - ", "limit", limit.name());
        self.word("    - ", "count", count);
        self.text("    - ", "detail", detail);
    }

    fn check(&mut self, check: &CheckResult) {
        let CheckResult { name, passed, job, exit_status } = check;
        self.text("  - ", "name", name);
        self.word("    - ", "passed", passed);
        self.text("    - ", "job", job.as_deref().unwrap_or_default());
        self.optional("    - ", "exit_status", *exit_status);
    }

    fn measurement(&mut self, measurement: &Measurement) {
        let Measurement { name, value } = measurement;
        self.text("  - ", "name", name);
        self.text("    - ", "value", value.as_deref().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_contract::enforcement::{Label, Mechanism};
    use bailiwick_contract::job::Encoding;

    #[test]
    fn both_renderings_use_the_same_words() {
        fn word(value: &impl serde::Serialize) -> String {
            serde_json::to_string(value).expect("serializes").trim_matches('"').into()
        }
        let all = [
            Mechanism::NetNamespace,
            Mechanism::MountNamespace,
            Mechanism::CgroupV1,
            Mechanism::CgroupV2,
            Mechanism::RlimitNproc,
            Mechanism::CpuAffinity,
            Mechanism::WatchMemory,
            Mechanism::WatchStatfs,
            Mechanism::SupervisorTimer,
            Mechanism::SupervisorCapture,
            Mechanism::SlotLock,
        ];
        for mechanism in all {
            assert_eq!(word(&mechanism), mechanism.name());
        }
        for label in [Label::Enforced, Label::Measured] {
            assert_eq!(word(&label), label.name());
        }
        for encoding in [Encoding::Utf8, Encoding::Binary] {
            assert_eq!(word(&encoding), encoding.name());
        }
    }
}
