//! The flags of `create` and `exec` that say what a workspace is for, whose it is and how long it lives.
//!
//! How long a text may be, and what a label's key is, the engine decides.
use bailiwick_contract::quantity;
use bailiwick_engine::requests::AboutRequest;
use clap::Args;
use std::time::Duration;

// Without a doc comment: clap would show it in the place of the verb's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metadata")]
pub(crate) struct AboutArgs {
    /// What the workspace is for; shown in results and listings
    #[arg(long, value_name = "TEXT")]
    purpose: Option<String>,
    /// Whose it is
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// The task that it belongs to
    #[arg(long, value_name = "TEXT")]
    parent: Option<String>,
    /// A label, by which `list` can find it; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Expire after so long; units: ms, s, m, h, d [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::millis, allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// Never expire, and keep the record and the output also when `prune` is called
    #[arg(long, conflicts_with = "ttl")]
    retain: bool,
}

impl AboutArgs {
    /// Returns what was said.
    pub(crate) fn request(self) -> AboutRequest {
        AboutRequest {
            purpose: self.purpose,
            owner: self.owner,
            parent: self.parent,
            labels: self.label,
            ttl: self.ttl.map(Duration::from_millis),
            retain: self.retain,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("a label is KEY=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Parses a label that is looked for: a key, and a value where one is given.
///
/// # Errors
/// Never; the engine checks the key.
pub(crate) fn wanted_label(text: &str) -> Result<(String, Option<String>), String> {
    Ok(match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    })
}
