//! Reads the text of a `culture.yaml`: two or three words out of a YAML file.
//!
//! Either the fields stand at the top, or the first entry of a list `agents` has them; both forms are in use. Other
//! fields are somebody else's and are passed over. Aliases, tags and repeated fields are refused, since a reader that
//! guesses what they mean would name the wrong agent.
use super::Identity;
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// The longest value, in bytes; names of models with their owner have some 60.
const VALUE_BYTES_MAX: usize = 256;

/// Where the text stops making sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub(crate) struct Malformed {
    /// Counted from 1.
    line: usize,
    what: &'static str,
}

/// Reads an identity.
///
/// # Errors
/// [`Malformed`], which repeats nothing of the text.
pub(super) fn parse(text: &str) -> Result<Identity, Malformed> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1 };
    let identity = reader.document()?;
    reader.end()?;
    Ok(identity)
}

/// Returns whether a text can be part of the name of a prompt file, and of no other name.
pub(super) fn is_word(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    !text.is_empty() && text.len() <= 64 && text.bytes().all(inner)
}

/// The fields that matter, as far as they were met.
#[derive(Default)]
struct Fields {
    suffix: Option<String>,
    backend: Option<String>,
    model: Option<String>,
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    line: usize,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Identity, Malformed> {
        let mut event = self.next()?;
        while matches!(event, Event::StreamStart | Event::DocumentStart(_)) {
            event = self.next()?;
        }
        if !matches!(event, Event::MappingStart(..)) {
            return Err(self.wrong("the file is not a table of fields"));
        }
        let mut listed = None;
        let fields = self.fields(Some(&mut listed))?;
        match (listed, fields) {
            (None, fields) => self.identity(fields),
            (Some(listed), Fields { suffix: None, backend: None, model: None }) => {
                self.identity(listed)
            }
            (Some(_), _) => Err(self.wrong("the fields stand both in `agents` and beside it")),
        }
    }

    /// Reads the fields of a mapping whose start was met; `agents` is where those of a list go.
    fn fields(&mut self, mut agents: Option<&mut Option<Fields>>) -> Result<Fields, Malformed> {
        let mut fields = Fields::default();
        loop {
            let key = match self.next()? {
                Event::MappingEnd => return Ok(fields),
                Event::Scalar(key, _, 0, None) => key,
                _ => return Err(self.wrong("a field has no plain name")),
            };
            let place = match (key.as_ref(), agents.as_deref_mut()) {
                ("suffix", _) => &mut fields.suffix,
                ("backend", _) => &mut fields.backend,
                ("model", _) => &mut fields.model,
                ("agents", Some(Some(_))) => return Err(self.wrong("`agents` stands twice")),
                ("agents", Some(agents)) => {
                    *agents = Some(self.first_agent()?);
                    continue;
                }
                _ => {
                    let event = self.next()?;
                    self.skip(&event)?;
                    continue;
                }
            };
            let value = self.value()?;
            if place.is_some() {
                return Err(self.wrong("a field stands twice"));
            }
            *place = value;
        }
    }

    /// Reads the first entry of the list `agents` and passes over the others.
    fn first_agent(&mut self) -> Result<Fields, Malformed> {
        if !matches!(self.next()?, Event::SequenceStart(0, None)) {
            return Err(self.wrong("`agents` is not a list"));
        }
        if !matches!(self.next()?, Event::MappingStart(0, None)) {
            return Err(self.wrong("`agents` does not begin with a table of fields"));
        }
        let fields = self.fields(None)?;
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(fields),
                event => self.skip(&event)?,
            }
        }
    }

    /// Reads one value; what YAML writes for nothing is none.
    fn value(&mut self) -> Result<Option<String>, Malformed> {
        let Event::Scalar(value, style, 0, None) = self.next()? else {
            return Err(self.wrong("a field that matters has no plain value"));
        };
        if style == ScalarStyle::Plain && ["", "~", "null"].contains(&value.as_ref()) {
            return Ok(None);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(self.wrong("a value is longer than 256 bytes"));
        }
        Ok(Some(value.into_owned()))
    }

    /// Passes over the rest of what `event` began.
    fn skip(&mut self, event: &Event<'t>) -> Result<(), Malformed> {
        let step = |event: &Event<'_>| match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => 1,
            Event::MappingEnd | Event::SequenceEnd => -1,
            _ => 0,
        };
        let mut open = step(event);
        while open > 0 {
            open += step(&self.next()?);
        }
        Ok(())
    }

    /// Expects that nothing follows.
    fn end(&mut self) -> Result<(), Malformed> {
        loop {
            match self.next()? {
                Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(()),
                _ => return Err(self.wrong("a second document follows")),
            }
        }
    }

    fn next(&mut self) -> Result<Event<'t>, Malformed> {
        match self.events.next_event() {
            Some(Ok((Event::Alias(_), span))) => {
                self.line = span.start.line();
                Err(self.wrong("aliases are not understood here"))
            }
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                self.line = error.marker().line();
                Err(self.wrong("the text is not YAML"))
            }
            None => Err(self.wrong("the text ends too early")),
        }
    }

    fn identity(&self, fields: Fields) -> Result<Identity, Malformed> {
        let nick = fields.suffix.filter(|nick| !nick.trim().is_empty());
        let nick = nick.ok_or_else(|| self.wrong("`suffix` is missing"))?;
        let backend = fields.backend.ok_or_else(|| self.wrong("`backend` is missing"))?;
        if !is_word(&backend) {
            let what = "`backend` is not a word of letters, digits, `-` and `_`";
            return Err(self.wrong(what));
        }
        let model = fields.model.filter(|model| !model.trim().is_empty());
        Ok(Identity { nick, backend, model })
    }

    const fn wrong(&self, what: &'static str) -> Malformed {
        Malformed { line: self.line, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, wanted: Result<(&str, &str, Option<&str>), &str>) {
        let told = parse(text);
        let told = told
            .as_ref()
            .map(|told| (told.nick.as_str(), told.backend.as_str(), told.model.as_deref()))
            .map_err(ToString::to_string);
        assert_eq!(told, wanted.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn both_forms_that_are_in_use_are_read() {
        check("suffix: a\nbackend: b\n", Ok(("a", "b", None)));
        check(
            "agents:\n- suffix: a\n  backend: b\n  model: c/d-1\n",
            Ok(("a", "b", Some("c/d-1"))),
        );
        let long = "# why\nsuffix: a\nbackend: b\nmodel: ''\nchannels:\n  - \"#x\"\nprompt: |\n  suffix: no\n";
        check(long, Ok(("a", "b", None)));
        check("suffix: a\nbackend: b\nmodel: ~\nx: {y: [z]}\n", Ok(("a", "b", None)));
        let two = "agents:\n- suffix: a\n  backend: b\n- suffix: c\n  backend: d\n";
        check(two, Ok(("a", "b", None)));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_line() {
        check("", Err("line 1: the file is not a table of fields"));
        check("- suffix: a\n", Err("line 1: the file is not a table of fields"));
        check("suffix: a\n", Err("line 2: `backend` is missing"));
        check("backend: a\nsuffix: ' '\n", Err("line 3: `suffix` is missing"));
        check("suffix: a\nsuffix: b\nbackend: c\n", Err("line 2: a field stands twice"));
        check("suffix: [a]\nbackend: b\n", Err("line 1: a field that matters has no plain value"));
        check(
            "suffix: !!int 1\nbackend: b\n",
            Err("line 1: a field that matters has no plain value"),
        );
        check("x: &x a\nsuffix: *x\nbackend: b\n", Err("line 2: aliases are not understood here"));
        check("suffix: a\nbackend: b\n---\nsuffix: c\n", Err("line 3: a second document follows"));
        check("agents: a\n", Err("line 1: `agents` is not a list"));
        check("agents: []\n", Err("line 1: `agents` does not begin with a table of fields"));
        check(
            "suffix: a\nagents:\n- backend: b\n",
            Err("line 4: the fields stand both in `agents` and beside it"),
        );
        check("suffix: \"a\nbackend: b\n", Err("line 1: the text is not YAML"));
        check("suffix: a\n\tbackend: b\n", Err("line 1: the text is not YAML"));
    }

    #[test]
    fn a_backend_cannot_lead_to_another_file() {
        for backend in ["../x", "a/b", "a.b", "'a\0'", "\"a\\nb\"", "a b"] {
            let told = parse(&format!("suffix: a\nbackend: {backend}\n"));
            assert!(told.is_err(), "{backend}");
        }
    }

    #[test]
    fn a_deep_or_a_wide_text_is_read_or_refused_but_does_not_break_the_reader() {
        for text in ["[", "{", "- ", "? ", "{a: ", "&a ", "!a ", "\n-"] {
            let deep = text.repeat((64 << 10) / text.len());
            assert!(parse(&deep).is_err());
            assert!(parse(&format!("x: {deep}")).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(suffix|backend|model|agents|[-:{}\\[\\]&*!|>'\"# \n\t~,?]|a|\\PC){0,80}") {
            if let Ok(identity) = parse(&text) {
                prop_assert!(is_word(&identity.backend));
            }
        }
    }
}
