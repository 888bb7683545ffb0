//! Text as it comes.

use std::io::{ErrorKind, Write};

use super::Failure;

/// Where text goes. A reader who has gone away ends the command.
pub struct Output<'a> {
    to: &'a mut dyn Write,
    streams: bool,
}

impl Output<'_> {
    /// Text is written as it comes if `streams`, and dropped otherwise.
    pub fn new(to: &mut dyn Write, streams: bool) -> Output<'_> {
        Output { to, streams }
    }

    /// Writes text, if it streams.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.streams { self.always(text) } else { Ok(()) }
    }

    /// Writes text.
    pub fn always(&mut self, text: &str) -> Result<(), Failure> {
        self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush()).map_err(|error| {
            let message = match error.kind() {
                ErrorKind::BrokenPipe => "standard output was closed".to_string(),
                _ => format!("standard output: {error}"),
            };
            Failure::usage(message)
        })
    }
}
