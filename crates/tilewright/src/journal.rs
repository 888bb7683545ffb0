//! The record of what was rewritten, chosen and refused, and why: values, not log lines.

use std::fmt;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something was changed into something equal.
    Rewrote,
    /// One of several possibilities was taken.
    Chose,
    /// A possibility was turned down.
    Refused,
    /// A fact that a user may want to know.
    Noted,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The stage that made it: `tensor`, `block`, `task`, `kernel`, …
    pub stage: &'static str,
    /// What it is about.
    pub kind: Kind,
    /// What: an operator, a function, a buffer.
    pub subject: String,
    /// Why, in one sentence.
    pub reason: String,
}

/// Entries in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The entries.
    pub entries: Vec<Entry>,
}

impl Journal {
    /// An empty journal.
    pub fn new() -> Journal {
        Journal::default()
    }

    /// Adds an entry.
    pub fn record(
        &mut self,
        stage: &'static str,
        kind: Kind,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.entries.push(Entry { stage, kind, subject: subject.into(), reason: reason.into() });
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let verb = match entry.kind {
                Kind::Rewrote => "rewrote",
                Kind::Chose => "chose",
                Kind::Refused => "refused",
                Kind::Noted => "noted",
            };
            writeln!(f, "{}: {verb} {}: {}", entry.stage, entry.subject, entry.reason)?;
        }
        Ok(())
    }
}
