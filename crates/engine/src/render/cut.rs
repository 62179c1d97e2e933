//! Cuts one text to a budget of rendered bytes, keeping its head and its tail around a marker.
//!
//! A budget counts what the dearer of the two renderings needs, so that a text of escapes is cut shorter than a plain
//! one. Which text gets how much is decided in `bound`.
use super::escape::is_hidden;

/// Where a text stands: on one line, or in a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Line,
    Excerpt,
}

impl Shape {
    const fn separator(self) -> &'static str {
        match self {
            Self::Line => " ",
            Self::Excerpt => "\n",
        }
    }
}

/// The least room for head and tail together; less shows nothing that could be read.
const ROOM_MIN: usize = 8;

/// What a marker says of a cut text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marker<'a> {
    /// How many bytes the full text has.
    pub(super) total: u64,
    /// The command that returns it; none where one command stands for the whole package.
    pub(super) command: Option<&'a str>,
}

impl Marker<'_> {
    fn text(&self, shown: usize) -> String {
        let total = self.total;
        match self.command {
            Some(command) => {
                format!("...[truncated: {shown} of {total} bytes shown -- full text: `{command}`]")
            }
            None => format!("...[truncated: {shown} of {total} bytes shown]"),
        }
    }
}

/// Returns the last item of a list of which `shown` of `total` items are left.
pub(super) fn list_marker(shown: usize, total: usize, command: Option<&str>) -> String {
    match command {
        Some(command) => {
            format!("...[truncated: {shown} of {total} items shown -- full list: `{command}`]")
        }
        None => format!("...[truncated: {shown} of {total} items shown]"),
    }
}

/// Returns what the dearer rendering needs for `c`: JSON writes `\u001b` where Markdown writes `\x1b`.
const fn char_cost(c: char, shape: Shape) -> usize {
    match c {
        // In a fence a line feed brings the next line's indent of four.
        '\n' if matches!(shape, Shape::Excerpt) => 5,
        '\n' | '\r' | '\t' | '"' | '\\' => 2,
        '`' | '<' | '(' if matches!(shape, Shape::Line) => 2,
        c if c.is_ascii_control() => 6,
        c if is_hidden(c) && c.len_utf8() == 4 => 12,
        c if is_hidden(c) => 8,
        c => c.len_utf8(),
    }
}

/// Returns the cost of `text`.
pub(super) fn cost(text: &str, shape: Shape) -> usize {
    text.chars().map(|c| char_cost(c, shape)).sum()
}

/// Returns whether `text` costs at most `budget`; reads no further than that.
pub(super) fn within(text: &str, shape: Shape, budget: usize) -> bool {
    text.len() <= budget && prefix(text, shape, budget).len() == text.len()
}

/// Returns the longest start of `text` that costs at most `budget`.
pub(super) fn prefix(text: &str, shape: Shape, budget: usize) -> &str {
    let mut spent = 0;
    let end = text.char_indices().find(|(_, c)| {
        spent += char_cost(*c, shape);
        spent > budget
    });
    end.map_or(text, |(at, _)| &text[..at])
}

fn suffix(text: &str, shape: Shape, budget: usize) -> &str {
    let mut spent = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        spent += char_cost(*c, shape);
        spent > budget
    });
    start.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

/// Returns `text` cut to `budget`, or nothing where it may stay whole.
///
/// A text that costs less than its marker stays whole, so a result costs at most `budget` or the marker's own cost.
pub(super) fn cut_text(
    text: &str,
    shape: Shape,
    budget: usize,
    marker: &Marker<'_>,
) -> Option<String> {
    if within(text, shape, budget) {
        return None;
    }
    let separator = shape.separator();
    let dearest = cost(&marker.text(text.len()), shape) + 2 * cost(separator, shape);
    if within(text, shape, dearest) {
        return None;
    }
    let room = Some(budget.saturating_sub(dearest)).filter(|room| *room >= ROOM_MIN).unwrap_or(0);
    let head = prefix(text, shape, room / 2);
    let tail = suffix(text, shape, room - cost(head, shape));
    let mut out = String::with_capacity(head.len() + tail.len() + dearest);
    out.push_str(head);
    out.push_str(if head.is_empty() { "" } else { separator });
    out.push_str(&marker.text(head.len() + tail.len()));
    out.push_str(if tail.is_empty() { "" } else { separator });
    out.push_str(tail);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, budget: usize, expected: Option<&str>) {
        let marker = Marker { total: text.len() as u64, command: None };
        let cut = cut_text(text, Shape::Line, budget, &marker);
        assert_eq!(cut.as_deref(), expected, "{text}");
    }

    #[test]
    fn head_and_tail_are_kept_around_the_marker() {
        let text = format!("{}{}", "a".repeat(50), "z".repeat(50));
        check(&text, 100, None);
        check(&text, 48, Some("aaaa ...[truncated: 8 of 100 bytes shown] zzzz"));
        check(&text, 0, Some("...[truncated: 0 of 100 bytes shown]"));
        check("short", 0, None);
    }

    #[test]
    fn a_cut_falls_between_characters_and_counts_escapes() {
        let text = "\x1b".repeat(50);
        let marker = Marker { total: 50, command: None };
        let cut = cut_text(&text, Shape::Line, 64, &marker).expect("it is over");
        assert!(cost(&cut, Shape::Line) <= 64, "{cut:?}");
        assert!(cut.starts_with("\x1b\x1b ...[truncated: 4 of 50 bytes shown] \x1b"), "{cut:?}");
        check(&"😀".repeat(25), 52, Some("😀 ...[truncated: 12 of 100 bytes shown] 😀😀"));
    }
}
