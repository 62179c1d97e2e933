//! Turns results and failures into text: one line of JSON, or Markdown.
//!
//! Everything here is pure, and nothing that a job, a path or a purpose says can pass for something of ours. It does
//! not print, and it adds no trailing newline; that is the caller's.
mod bound;
mod cut;
mod escape;
mod excerpt;
mod failure;
mod json;
mod logs;
mod markdown;
mod terminal;
#[cfg(test)]
mod tests;

pub use bound::{
    ATTENTION_LINE_BYTES_MAX, ATTENTION_LINES_MAX, Bounded, FLOOR, Retrieval, bounded,
};
pub use escape::{escape_line, escape_markdown, fence};
pub use excerpt::{EXCERPT_BYTES_MAX, excerpt_of};
pub use failure::{failure_json, failure_text};
pub use json::{json, json_line};
pub use logs::{logs_text, matches_text};
pub use markdown::markdown;
pub use terminal::Terminal;

/// Which parts of a package are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sections {
    /// The nine sections and `facts`.
    #[default]
    All,
    /// The first nine sections (`--package nine`).
    Nine,
}
