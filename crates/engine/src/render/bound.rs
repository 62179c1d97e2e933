//! Cuts a result package so that both of its renderings stay within a bound.
//!
//! `status`, the ids, the exit status, the signal and the policy are never cut, and `attention` goes before all prose.
//! Nothing is clipped after rendering: the package itself is cut, so both forms say the same. The tail is kept
//! too, and each marker's command returns what was cut.
//!
//! # The levels
//! One number says how much is cut; [`bounded`] takes the largest that fits. From [`FULL`] on it is a budget for one
//! text, of which a list gets a few and an excerpt [`EXCERPT_SHARES`], and each marker names its command. From
//! [`COMPACT`] on it is the same for bounds near the floor: the markers are short, and one command at the end of the
//! summary stands for the whole package. Below are rungs without prose, which still name the first artifacts.
//!
//! # What a cut list says
//! A list of texts ends in its own marker. No artifact and no evidence is made up for that: a last warning,
//! `...[cut: artifacts 66 -- bailiwick inspect H --full]`, counts what is missing, at every level.
//!
//! # Why level 0 fits in [`FLOOR`]
//! At [`LEAST`] the JSON form consists of 1 109 bytes of keys and punctuation; two ids, 128; the warning that counts
//! what was cut, with a third id and no count over `99+`, 173; the status, 22; two durations of 24, four counts of 20
//! and two statuses of 11 digits, 150; twelve texts of which `...` is left, 36; the attention's marker, 12; nine limits,
//! each with a label of 8 and a mechanism of 18, 234; and their values: a word of 16, a marker of 12, two numbers of 24
//! (cores and seconds) and five whole ones of 20, 176. That is 2 040, and a newline, and a few digits more in the two
//! markers for lists of thousands. Markdown has no quotes and says each limit on a shorter line. The test
//! `the_floor_holds_for_the_worst_package` counts it.
use super::cut::{Marker, Shape, cost, cut_text, list_marker, prefix, within};
use super::{Sections, json, markdown};
use bailiwick_contract::enforcement::{LimitFacts, LimitValue};
use bailiwick_contract::id::ID_BYTES_MAX;
use bailiwick_contract::job::{CheckResult, Measurement, QuotaEvent};
use bailiwick_contract::package::{
    AboutFacts, Artifact, Evidence, Facts, PolicyFacts, Provenance, ResourceUsage, ResultPackage,
};
use bailiwick_contract::policy::Limit;
use std::collections::BTreeMap;

/// The smallest bound: what the facts about nine limits and two long ids need at the worst (module docs).
pub const FLOOR: usize = 2_048;

/// The most lines of `attention`; of more, the last line counts the rest.
pub const ATTENTION_LINES_MAX: usize = 16;

/// The most rendered bytes of one line of `attention`.
pub const ATTENTION_LINE_BYTES_MAX: usize = 160;

/// No prose but the command; only each limit's value, label and mechanism are left of the policy.
const LEAST: usize = 0;
/// No lists, no text of more than 24 bytes, no facts about the output.
const BARE: usize = 1;
/// One artifact's name, digest and size.
const NAMED: usize = 2;
/// The facts about the output too, and texts of up to 40 bytes.
const FACTS: usize = 3;
/// From here on lists and texts have a budget. Each rung from [`FACTS`] to here names one more artifact.
const COMPACT: usize = FACTS + ARTIFACTS_NAMED;
/// From here on each marker has its own command: the longest such marker is 185 bytes.
const FULL: usize = COMPACT + 192;

/// The longest kind of network, and some room for new ones.
const WORD: usize = 16;

/// The hex digits of a SHA-256.
const DIGEST: usize = 64;

/// How many artifacts keep their name, digest and size before any prose is shown.
const ARTIFACTS_NAMED: usize = 4;
/// What the name of such an artifact may cost.
const NAME: usize = 64;

/// Ends a text of which only the start is left.
const CUT: &str = "...[cut]";
/// Stands for a text where there is no room for [`CUT`].
const GONE: &str = "...";

/// What returns a package that is on no record.
const AGAIN: &str = "the same with --max-result-bytes 1MiB";

/// Stands for the labels that are missing; no label's key has a bracket.
const LABELS_CUT: &str = "...[cut]";

/// How many budgets of a text the excerpts get together.
const EXCERPT_SHARES: usize = 16;
/// How many budgets of a text a list gets.
const LIST_SHARES: usize = 4;

/// The words of the commands that return what was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrieval {
    /// What `inspect` is asked for: the job for a job's package, else the workspace; empty where there is no record to ask
    /// for, as of a dry run.
    pub handle: String,
    /// What `logs` is asked for where a piece of evidence names no source.
    pub job: Option<String>,
}

impl Retrieval {
    fn whole(&self) -> String {
        if self.handle.is_empty() {
            return AGAIN.into();
        }
        format!("bailiwick inspect {} --full", id_word(&self.handle))
    }

    fn section(&self, section: &str) -> String {
        if self.handle.is_empty() {
            return AGAIN.into();
        }
        format!("{} --section {section}", self.whole())
    }

    fn excerpt(&self, evidence: &Evidence) -> String {
        let source = Some(evidence.source.as_str()).filter(|source| !source.is_empty());
        match source.or(self.job.as_deref()) {
            Some(job) => format!("bailiwick logs {}", id_word(job)),
            None => self.section("evidence"),
        }
    }
}

/// Returns what of `text` can stand in an id, so that a command stays one line of plain words.
fn id_word(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.chars().filter(plain).take(ID_BYTES_MAX).collect()
}

/// A package within its bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounded {
    /// The package.
    pub package: ResultPackage,
    /// Whether anything was cut.
    pub cut: bool,
}

/// Cuts `package` so that each rendering, with its newline, has at most `max_bytes` bytes.
///
/// A bound below [`FLOOR`] is taken as [`FLOOR`]; refusing it is the business of whoever read the flag. The number of
/// limits is that of [`Limit::ALL`]. A package that fits stays as it is, so this is idempotent.
#[must_use]
pub fn bounded(
    mut package: ResultPackage,
    max_bytes: usize,
    retrieval: &Retrieval,
    sections: Sections,
) -> Bounded {
    let max_bytes = max_bytes.max(FLOOR);
    let clipped = clip_ids(&mut package);
    let attention = tame_attention(&mut package.attention, retrieval);
    if fits(&package, max_bytes, sections) {
        return Bounded { package, cut: clipped || attention.is_some() };
    }
    package.attention = attention.unwrap_or(package.attention);
    let at = |level, lines| Cutter { package: &package, retrieval, level, lines }.package();
    let most =
        |level| largest(ATTENTION_LINES_MAX, |lines| fits(&at(level, lines), max_bytes, sections));
    let lines = Some(most(NAMED)).filter(|lines| *lines > 0).unwrap_or_else(|| most(BARE));
    let level = largest(FULL + max_bytes, |level| fits(&at(level, lines), max_bytes, sections));
    Bounded { package: at(level, lines), cut: true }
}

fn fits(package: &ResultPackage, max_bytes: usize, sections: Sections) -> bool {
    json(package, sections).len() < max_bytes && markdown(package, sections).len() < max_bytes
}

/// Returns a number up to `most` that `fits`, the largest where fitting is monotonic; 0 needs no proof.
fn largest(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

/// An id never is longer than 64 bytes; one that is has come from a broken store.
fn clip_ids(package: &mut ResultPackage) -> bool {
    let Provenance { workspace_id, job_id, trace_id, .. } = &mut package.provenance;
    let sources = package.evidence.iter_mut().map(|evidence| &mut evidence.source);
    let mut clipped = false;
    for id in [workspace_id, job_id, trace_id].into_iter().chain(sources) {
        let end = prefix(id, Shape::Line, ID_BYTES_MAX).len();
        clipped |= end < id.len();
        id.truncate(end);
    }
    clipped
}

/// Puts lines within their limits and returns the original where that changed them.
fn tame_attention(lines: &mut Vec<String>, retrieval: &Retrieval) -> Option<Vec<String>> {
    let short = |line: &String| within(line, Shape::Line, ATTENTION_LINE_BYTES_MAX);
    if lines.len() <= ATTENTION_LINES_MAX && lines.iter().all(short) {
        return None;
    }
    let tame = attention(lines, ATTENTION_LINES_MAX, retrieval);
    Some(std::mem::replace(lines, tame))
}

fn attention(lines: &[String], most: usize, retrieval: &Retrieval) -> Vec<String> {
    if lines.len() <= most {
        return lines.iter().map(|line| attention_line(line)).collect();
    }
    if most == 0 {
        return vec![none_of(lines.len())];
    }
    let mut kept: Vec<String> = lines[..most - 1].iter().map(|line| attention_line(line)).collect();
    let marker = |command: &str| list_marker(most - 1, lines.len(), Some(command));
    let last = marker(&retrieval.section("attention"));
    let short = within(&last, Shape::Line, ATTENTION_LINE_BYTES_MAX);
    kept.push(if short { last } else { marker(&retrieval.whole()) });
    kept
}

/// Stands for a whole list where there is no room for more.
fn none_of(total: usize) -> String {
    format!("...[{total} cut]")
}

fn attention_line(line: &str) -> String {
    let marker = Marker { total: size(line), command: None };
    let cut = cut_text(line, Shape::Line, ATTENTION_LINE_BYTES_MAX, &marker);
    cut.unwrap_or_else(|| line.into())
}

fn size(text: &str) -> u64 {
    u64::try_from(text.len()).expect("usize fits into u64 on every supported host")
}

/// A digest is never cut: half of one names nothing. What is longer has come from a broken store.
fn digest(text: &str) -> String {
    prefix(text, Shape::Line, DIGEST).into()
}

/// Returns `text`, or its start and a marker where it costs more than `kept`.
fn start(text: &str, kept: usize) -> String {
    if within(text, Shape::Line, kept) {
        return text.into();
    }
    match kept.checked_sub(CUT.len()) {
        Some(room) => format!("{}{CUT}", prefix(text, Shape::Line, room)),
        None => GONE.into(),
    }
}

/// Makes a package of one level out of the full one.
struct Cutter<'a> {
    package: &'a ResultPackage,
    retrieval: &'a Retrieval,
    level: usize,
    lines: usize,
}

impl Cutter<'_> {
    fn package(&self) -> ResultPackage {
        let full = self.package;
        let evidence = self.items(&full.evidence, "evidence");
        let artifacts = self.artifacts(&full.artifacts);
        let lost = self.lost(evidence.len(), artifacts.len());
        let mut warnings = self.list(&full.warnings, "warnings");
        if !lost.is_empty() {
            warnings.push(format!("...[cut: {lost} -- {}]", self.retrieval.whole()));
        }
        ResultPackage {
            outcome_summary: self.summary(&full.outcome_summary, !lost.is_empty()),
            status: full.status,
            key_findings: self.list(&full.key_findings, "key_findings"),
            evidence,
            artifacts,
            warnings,
            resource_usage: self.usage(&full.resource_usage),
            provenance: self.provenance(&full.provenance),
            attention: attention(&full.attention, self.lines, self.retrieval),
            facts: self.facts(&full.facts),
        }
    }

    /// Returns how many items are missing of each list that has no marker of its own, and whether the output's facts are.
    fn lost(&self, evidence: usize, artifacts: usize) -> String {
        let full = self.package;
        // From `COMPACT` on a list of texts ends in its own marker.
        let unmarked = |total: usize| if self.level < COMPACT { total } else { 0 };
        let inputs = unmarked(full.provenance.inputs.len());
        let quota_events = unmarked(full.facts.quota_events.len());
        let about = usize::from(full.facts.about.is_some() && self.level < COMPACT);
        let output = usize::from(full.facts.output.is_some() && self.level < FACTS);
        let declared = full.facts.checks.len() + full.facts.measurements.len();
        let declared = unmarked(declared);
        let least = self.level == LEAST;
        let [other, inputs, quota_events, about, output] = if least {
            [inputs + quota_events + about + output + declared, 0, 0, 0, 0]
        } else {
            [declared, inputs, quota_events, about, output]
        };
        let lists = [
            ("key_findings", unmarked(full.key_findings.len())),
            ("evidence", full.evidence.len() - evidence),
            ("artifacts", full.artifacts.len() - artifacts),
            ("warnings", unmarked(full.warnings.len())),
            ("other", other),
            ("inputs", inputs),
            ("quota_events", quota_events),
            ("about", about),
            ("output", output),
        ];
        let lost = lists.iter().filter(|(_, count)| *count > 0).map(|(name, count)| match count {
            100.. if least => format!("{name} 99+"),
            count => format!("{name} {count}"),
        });
        lost.collect::<Vec<_>>().join(", ")
    }

    const fn budget(&self) -> usize {
        self.level.saturating_sub(COMPACT)
    }

    /// Below [`FULL`] the summary ends in the command for the whole package, unless a warning has the last room for it.
    fn summary(&self, text: &str, warned: bool) -> String {
        if self.level >= FULL {
            return self.text(text, "outcome_summary");
        }
        if self.level == LEAST && warned {
            return GONE.into();
        }
        let marker = format!("...[truncated -- full: `{}`]", self.retrieval.whole());
        if self.level < COMPACT || text.is_empty() {
            return marker;
        }
        format!("{} {marker}", self.text(text, "outcome_summary"))
    }

    fn text(&self, text: &str, section: &str) -> String {
        let kept = match self.level {
            LEAST => GONE.len(),
            BARE | NAMED => 24,
            FACTS..COMPACT => 40,
            _ => self.budget(),
        };
        if within(text, Shape::Line, kept) {
            return text.into();
        }
        if self.level < COMPACT {
            return start(text, kept);
        }
        let command = self.retrieval.section(section);
        self.cut(text, Shape::Line, kept, size(text), &command).unwrap_or_else(|| text.into())
    }

    fn cut(
        &self,
        text: &str,
        shape: Shape,
        budget: usize,
        total: u64,
        command: &str,
    ) -> Option<String> {
        let marker = Marker { total, command: self.command(command) };
        cut_text(text, shape, budget, &marker)
    }

    fn command<'a>(&self, command: &'a str) -> Option<&'a str> {
        (self.level >= FULL).then_some(command)
    }

    /// Returns what is left of a list whose last item can say what is missing.
    fn list<T: Marked>(&self, items: &[T], section: &str) -> Vec<T> {
        let mut kept = self.items(items, section);
        if let Some(first_lost) = items.get(kept.len()).filter(|_| self.level >= COMPACT) {
            let command = self.retrieval.section(section);
            let marker = list_marker(kept.len(), items.len(), self.command(&command));
            kept.push(T::marker(marker, first_lost));
        }
        kept
    }

    /// Returns the first items that the budget of their list can pay, each with its texts cut.
    fn items<T: Item>(&self, items: &[T], section: &str) -> Vec<T> {
        if self.level < COMPACT {
            return Vec::new();
        }
        let mut left = T::budget(self.budget());
        let cut = items.iter().map(|item| item.cut(self, section, items.len()));
        let paid = cut.map_while(|item| {
            left = left.checked_sub(item.cost())?;
            Some(item)
        });
        paid.collect()
    }

    /// The first few artifacts are named even where there is no budget for the rest of what is known of them.
    fn artifacts(&self, full: &[Artifact]) -> Vec<Artifact> {
        let mut kept = self.items(full, "artifacts");
        let named = match self.level {
            ..NAMED => 0,
            NAMED => 1,
            level => (level - FACTS + 1).min(ARTIFACTS_NAMED),
        };
        let rest = full.iter().take(named).skip(kept.len());
        kept.extend(rest.map(|artifact| self.named(artifact)));
        kept
    }

    fn named(&self, full: &Artifact) -> Artifact {
        let gone = |text: &str| start(text, CUT.len());
        let name = Marker { total: size(&full.name), command: None };
        Artifact {
            name: cut_text(&full.name, Shape::Line, NAME, &name)
                .unwrap_or_else(|| full.name.clone()),
            purpose: gone(&full.purpose),
            media_type: gone(&full.media_type),
            digest: digest(&full.digest),
            size_bytes: full.size_bytes,
            reference: gone(&full.reference),
        }
    }

    fn usage(&self, usage: &ResourceUsage) -> ResourceUsage {
        let max_memory_basis = self.text(&usage.max_memory_basis, "resource_usage");
        ResourceUsage { max_memory_basis, ..usage.clone() }
    }

    fn provenance(&self, full: &Provenance) -> Provenance {
        let text = |text: &str| self.text(text, "provenance");
        Provenance {
            workspace_id: full.workspace_id.clone(),
            job_id: full.job_id.clone(),
            profile: text(&full.profile),
            image_digest: text(&full.image_digest),
            started_at: text(&full.started_at),
            finished_at: text(&full.finished_at),
            policy_summary: text(&full.policy_summary),
            inputs: self.list(&full.inputs, "provenance"),
            // It is the workspace's id once more.
            trace_id: match self.level {
                LEAST => start(&full.trace_id, GONE.len()),
                _ => full.trace_id.clone(),
            },
        }
    }

    fn facts(&self, full: &Facts) -> Facts {
        let word = |word: &Option<String>| word.as_ref().map(|word| self.text(word, "facts"));
        Facts {
            exit_status: full.exit_status,
            signal: full.signal,
            state: word(&full.state),
            job_status: word(&full.job_status),
            reason: word(&full.reason),
            provider: self.text(&full.provider, "facts"),
            duration_ms: full.duration_ms,
            policy: self.policy(&full.policy),
            output: full.output.clone().filter(|_| self.level >= FACTS).map(|mut output| {
                output.sha256 = digest(&output.sha256);
                output
            }),
            quota_events: self.list(&full.quota_events, "facts"),
            checks: self.list(&full.checks, "facts"),
            measurements: self.list(&full.measurements, "facts"),
            about: full.about.as_ref().filter(|_| self.level >= COMPACT).map(|it| self.about(it)),
            // Seven numbers, in a package that has no policy: there is always room for them.
            prune: full.prune,
        }
    }

    fn about(&self, full: &AboutFacts) -> AboutFacts {
        let text = |text: &Option<String>| text.as_ref().map(|text| self.text(text, "facts"));
        let mut left = LIST_SHARES * self.budget();
        let paid = full.labels.iter().map_while(|(key, value)| {
            let value = self.text(value, "facts");
            left = left.checked_sub(6 + line_cost(&[key, &value]))?;
            Some((key.clone(), value))
        });
        let mut labels: BTreeMap<String, String> = paid.collect();
        if labels.len() < full.labels.len() {
            let command = self.retrieval.section("facts");
            let marker = list_marker(labels.len(), full.labels.len(), self.command(&command));
            labels.insert(LABELS_CUT.into(), marker);
        }
        AboutFacts {
            purpose: text(&full.purpose),
            owner: text(&full.owner),
            parent: text(&full.parent),
            labels,
            expires_at: full.expires_at.clone(),
            retain: full.retain,
        }
    }

    fn policy(&self, full: &PolicyFacts) -> PolicyFacts {
        let limits = full.0.iter().take(Limit::ALL.len());
        PolicyFacts(limits.map(|(limit, facts)| (*limit, self.limit(facts))).collect())
    }

    fn limit(&self, full: &LimitFacts) -> LimitFacts {
        let told = |number: Option<u64>| number.filter(|_| self.level > LEAST);
        LimitFacts {
            value: self.limit_value(&full.value),
            label: full.label,
            mechanism: full.mechanism,
            overshoot: told(full.overshoot),
            inodes: told(full.inodes),
        }
    }

    fn limit_value(&self, full: &LimitValue) -> LimitValue {
        match full {
            // The kind of network is a word; what is longer has come from a broken store.
            LimitValue::Text(text) => LimitValue::Text(prefix(text, Shape::Line, WORD).into()),
            LimitValue::Paths(paths) if self.level >= COMPACT => {
                LimitValue::Paths(self.list(paths, "facts"))
            }
            LimitValue::Paths(paths) if !paths.is_empty() => {
                LimitValue::Paths(vec![none_of(paths.len())])
            }
            LimitValue::Whole(_) | LimitValue::Number(_) | LimitValue::Paths(_) => full.clone(),
        }
    }
}

/// Something that a package lists.
trait Item: Sized {
    /// Returns what a whole list may cost where one text may cost `text`.
    fn budget(text: usize) -> usize;
    /// Returns the item with each of its texts cut; it is one of `of`.
    fn cut(&self, cutter: &Cutter<'_>, section: &str, of: usize) -> Self;
    /// Returns what the item costs.
    fn cost(&self) -> usize;
}

/// An item that can say what is missing and cannot be taken for a real one.
trait Marked: Item {
    /// Returns the item that says what is missing.
    fn marker(text: String, first_lost: &Self) -> Self;
}

fn line_cost(texts: &[&str]) -> usize {
    texts.iter().map(|text| cost(text, Shape::Line)).sum()
}

impl Item for String {
    fn budget(text: usize) -> usize {
        LIST_SHARES * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, _of: usize) -> Self {
        cutter.text(self, section)
    }

    fn cost(&self) -> usize {
        4 + line_cost(&[self])
    }
}

impl Marked for String {
    fn marker(text: String, _: &Self) -> Self {
        text
    }
}

impl Item for Evidence {
    fn budget(text: usize) -> usize {
        224 + (EXCERPT_SHARES + LIST_SHARES) * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, of: usize) -> Self {
        let budget = EXCERPT_SHARES * cutter.budget() / of.clamp(1, LIST_SHARES);
        let total = size(&self.excerpt).max(cutter.produced(self));
        let command = cutter.retrieval.excerpt(self);
        let excerpt = cutter.cut(&self.excerpt, Shape::Excerpt, budget, total, &command);
        Self {
            label: cutter.text(&self.label, section),
            kind: self.kind,
            source: self.source.clone(),
            truncated: self.truncated || excerpt.is_some(),
            excerpt: excerpt.unwrap_or_else(|| self.excerpt.clone()),
        }
    }

    fn cost(&self) -> usize {
        let excerpt = cost(&self.excerpt, Shape::Excerpt);
        130 + line_cost(&[&self.label, &self.source]) + excerpt
    }
}

impl Cutter<'_> {
    /// Returns how much output the job of `evidence` produced, which may be more than its excerpt was made of.
    fn produced(&self, evidence: &Evidence) -> u64 {
        let own = !evidence.source.is_empty() && evidence.source == self.package.provenance.job_id;
        self.package.facts.output.as_ref().filter(|_| own).map_or(0, |output| output.bytes)
    }
}

impl Item for Artifact {
    fn budget(text: usize) -> usize {
        120 + 2 * LIST_SHARES * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, _of: usize) -> Self {
        Self {
            name: cutter.text(&self.name, section),
            purpose: cutter.text(&self.purpose, section),
            media_type: cutter.text(&self.media_type, section),
            digest: digest(&self.digest),
            size_bytes: self.size_bytes,
            reference: cutter.text(&self.reference, section),
        }
    }

    fn cost(&self) -> usize {
        let Self { name, purpose, media_type, digest, size_bytes: _, reference } = self;
        120 + line_cost(&[name, purpose, media_type, digest, reference])
    }
}

impl Item for QuotaEvent {
    fn budget(text: usize) -> usize {
        70 + LIST_SHARES * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, _of: usize) -> Self {
        Self { detail: cutter.text(&self.detail, section), ..self.clone() }
    }

    fn cost(&self) -> usize {
        70 + line_cost(&[&self.detail])
    }
}

impl Marked for QuotaEvent {
    fn marker(text: String, first_lost: &Self) -> Self {
        Self { detail: text, ..first_lost.clone() }
    }
}

impl Item for CheckResult {
    fn budget(text: usize) -> usize {
        90 + LIST_SHARES * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, _of: usize) -> Self {
        Self { name: cutter.text(&self.name, section), ..self.clone() }
    }

    fn cost(&self) -> usize {
        90 + line_cost(&[&self.name, self.job.as_deref().unwrap_or_default()])
    }
}

impl Marked for CheckResult {
    /// No declared name has a bracket.
    fn marker(text: String, _: &Self) -> Self {
        Self { name: text, passed: false, job: None, exit_status: None }
    }
}

impl Item for Measurement {
    fn budget(text: usize) -> usize {
        40 + LIST_SHARES * text
    }

    fn cut(&self, cutter: &Cutter<'_>, section: &str, _of: usize) -> Self {
        let cut = |text: &String| cutter.text(text, section);
        Self { name: cut(&self.name), value: self.value.as_ref().map(cut) }
    }

    fn cost(&self) -> usize {
        40 + line_cost(&[&self.name, self.value.as_deref().unwrap_or_default()])
    }
}

impl Marked for Measurement {
    /// No declared name has a bracket.
    fn marker(text: String, _: &Self) -> Self {
        Self { name: text, value: None }
    }
}
