//! Shows text that is not ours so that it cannot act: not on a terminal, not as Markdown, not in JSON.
//!
//! A control character, a line separator or an invisible character becomes a visible escape (`\n`, `\x1b`, `\u{2028}`).
//! Nothing is dropped: each one-line form can be read back, which the tests do. The block starts are those of
//! CommonMark 0.31, §4 and §5.
//!
//! Common text stays as it is. A backslash is doubled only where it would otherwise read as the start of an escape, a
//! `-` at the start of a text is escaped only where it would make a list item or a rule, and so on.
use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest run of backticks that a fenced text keeps; of a longer run each 17th shows as `\x60`.
///
/// It bounds the fence, so that a text of backticks cannot triple its own size.
const BACKTICK_RUN_MAX: usize = 16;

/// Returns whether `c` is never shown as it is: a control, a line or bidi control, or without any width.
///
/// U+200C and U+200D stay: Persian, the scripts of India and emoji need them.
pub(super) const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'
        | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether `text` may hold a hidden character; ASCII text without one is the usual case.
pub(super) fn may_hide(text: &str) -> bool {
    text.bytes().any(|byte| !(0x20..0x7f).contains(&byte))
}

pub(super) fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)).expect("a String takes all"),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a String takes all"),
    }
}

/// Returns whether a backslash before `next` reads as the start of one of our escapes.
fn starts_escape(next: Option<char>) -> bool {
    next.is_some_and(|c| matches!(c, '\\' | 'n' | 'r' | 't' | 'x' | 'u') || is_hidden(c))
}

/// Returns `text` on one line, safe for a terminal.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    if !may_hide(text) && !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if starts_escape(chars.peek().copied()) => out.push_str("\\\\"),
            c if is_hidden(c) => push_visible(&mut out, c),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` on one line, safe at the start of a Markdown paragraph or list item; empty text is `(none)`.
#[must_use]
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    push_block(&mut out, text);
    out
}

/// Appends `text` where a line of Markdown has already begun.
pub(super) fn push_inline(out: &mut String, text: &str) {
    let plain =
        |byte: u8| (0x20..0x7f).contains(&byte) && !matches!(byte, b'\\' | b'`' | b'<' | b']');
    if text.bytes().all(plain) {
        out.push_str(text);
        return;
    }
    let mut previous = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        push_inline_char(out, previous, c, chars.peek().copied());
        previous = c;
    }
}

fn push_inline_char(out: &mut String, previous: char, c: char, next: Option<char>) {
    let takes_next = |c: char| c.is_ascii_punctuation();
    match c {
        '\\' if starts_escape(next) || next.is_some_and(takes_next) => out.push_str("\\\\"),
        '`' | '<' => out.extend(['\\', c]),
        // A link or an image: following it would tell someone else what was read.
        '(' if previous == ']' => out.push_str("\\("),
        c if is_hidden(c) => push_visible(out, c),
        c => out.push(c),
    }
}

/// Appends `text` where a block of Markdown begins: a paragraph, or the content of a list item.
pub(super) fn push_block(out: &mut String, text: &str) {
    let Some(first) = text.chars().next() else {
        out.push_str("(none)");
        return;
    };
    if first == ' ' || (first.is_whitespace() && !is_hidden(first)) {
        push_visible(out, first);
        push_inline(out, &text[first.len_utf8()..]);
        return;
    }
    // The delimiter is ASCII, so `at` is a boundary and the text before it needs no escape.
    match block_delimiter(text, first) {
        Some(at) => {
            out.push_str(&text[..at]);
            out.push('\\');
            push_inline(out, &text[at..]);
        }
        None => push_inline(out, text),
    }
}

/// Returns where the character stands that makes `text` start a block, unless [`push_inline`] escapes it anyway.
fn block_delimiter(text: &str, first: char) -> Option<usize> {
    let ends_marker = |at: usize| text[at..].chars().next().is_none_or(char::is_whitespace);
    let starts = match first {
        '#' | '>' | '=' | '|' | '[' => true,
        '-' | '+' | '*' => ends_marker(1) || is_rule(text, first),
        '_' => is_rule(text, first),
        '~' => text.starts_with("~~~"),
        '0'..='9' => {
            let at = text.bytes().take_while(u8::is_ascii_digit).count();
            let numbered = text[at..].starts_with(['.', ')']) && ends_marker(at + 1);
            return numbered.then_some(at);
        }
        _ => false,
    };
    starts.then_some(0)
}

fn is_rule(text: &str, of: char) -> bool {
    // The `-` of a list item counts: `- --` is a rule, not an item.
    let least = if of == '-' { 2 } else { 3 };
    text.chars().filter(|c| *c == of).count() >= least
        && text.chars().all(|c| c == of || c.is_whitespace())
}

/// Returns `text` as a fenced block: its lines as they are, but for hidden characters other than a tab.
#[must_use]
pub fn fence(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    push_fenced(&mut out, "", text);
    out.pop();
    out
}

/// Appends `text` as a fenced block with `indent` before each line, and a line feed.
pub(super) fn push_fenced(out: &mut String, indent: &str, text: &str) {
    let fence = "`".repeat(3.max(backtick_run(text).min(BACKTICK_RUN_MAX) + 1));
    out.extend([indent, &fence, "\n"]);
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push_str(indent);
        push_fenced_line(out, line);
        out.push('\n');
    }
    out.extend([indent, &fence, "\n"]);
}

fn push_fenced_line(out: &mut String, line: &str) {
    let mut run = 0;
    for c in line.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        match c {
            '`' if run > BACKTICK_RUN_MAX => {
                out.push_str("\\x60");
                run = 0;
            }
            c if is_hidden(c) && c != '\t' => push_visible(out, c),
            c => out.push(c),
        }
    }
}

fn backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_text_stays_as_it_is() {
        for text in [
            "python3 -c print(1)",
            "job-5f0c1a2b3c4d",
            "-c",
            "--flag=1",
            "~/notes",
            "3.14",
            "a*b_c",
            r"\d+ of C:\Windows",
            "größer 中文 👩\u{200d}🚀",
            "(none)",
            "...[truncated: 1 of 2 items shown]",
        ] {
            assert_eq!(escape_markdown(text), text);
            assert_eq!(escape_line(text), text);
        }
    }

    #[test]
    fn a_text_that_starts_a_block_is_escaped() {
        let cases = [
            ("# x", r"\# x"),
            ("- status", r"\- status"),
            ("-", r"\-"),
            ("* * *", r"\* * *"),
            ("--", r"\--"),
            ("---", r"\---"),
            ("___", r"\___"),
            ("===", r"\==="),
            ("1. x", r"1\. x"),
            ("12)", r"12\)"),
            ("> x", r"\> x"),
            ("~~~", r"\~~~"),
            ("[a]: http://x", r"\[a]: http://x"),
            ("    x", r"\x20   x"),
            ("\u{a0}# x", r"\u{a0}# x"),
            ("```", r"\`\`\`"),
            ("<b>", r"\<b>"),
            ("", "(none)"),
        ];
        for (text, shown) in cases {
            assert_eq!(escape_markdown(text), shown, "{text:?}");
        }
    }

    #[test]
    fn what_acts_is_shown_instead() {
        let text = "a\nb\r\tc\x1b[0m\u{2028}\u{202e}\u{7f}";
        assert_eq!(escape_line(text), r"a\nb\r\tc\x1b[0m\u{2028}\u{202e}\x7f");
        assert_eq!(escape_markdown(text), r"a\nb\r\tc\x1b[0m\u{2028}\u{202e}\x7f");
        assert_eq!(escape_line("C:\\new \\"), r"C:\\new \");
        assert_eq!(escape_markdown("![x](http://e/?q)"), r"![x]\(http://e/?q)");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence("a\n````\n"), "`````\na\n````\n`````");
        let long = fence(&"`".repeat(18));
        assert_eq!(long.lines().nth(1), Some("````````````````\\x60`"));
        assert_eq!(long.lines().next().map(str::len), Some(17));
    }
}
