//! A template's text as tokens.

use super::Error;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Text outside tags, white space around tags already removed where they ask for it.
    Text(String),
    /// `{{`
    OutputStart,
    /// `{%`
    BlockStart,
    /// `}}` or `%}`
    End,
    /// A name or a keyword.
    Name(String),
    /// A string, without quotes and escapes.
    Str(String),
    /// An integer.
    Int(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// An operator, a bracket or a separator.
    Sign(&'static str),
}

/// Operators, brackets and separators; longer ones first.
const SIGNS: [&str; 24] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", ".", ",", ":", "|", "(",
    ")", "[", "]", "{",
];
/// The sign that can also belong to the end of a tag.
const CLOSING_BRACE: &str = "}";

/// The tokens of a template with the line of each, counted from 1.
///
/// As in `transformers`: a line break behind a block tag is dropped, and so is white space before a block tag that is the
/// first on its line; `-` in a tag drops all white space on that side, `+` keeps it. A line break at the very end is dropped.
pub(super) fn lex(source: &str) -> Result<Vec<(Token, usize)>, Error> {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new() };
    lexer.template()?;
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: usize,
    tokens: Vec<(Token, usize)>,
}

/// What the tag before a text asks of it.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// Nothing.
    Keep,
    /// To drop a line break at its start.
    DropBreak,
    /// To drop white space at its start.
    DropSpace,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn advance(&mut self, bytes: usize) {
        let passed = self.rest().get(..bytes).unwrap_or(self.rest());
        self.line += passed.matches('\n').count();
        self.at += passed.len();
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Template { line: Some(self.line), message: message.into() })
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn template(&mut self) -> Result<(), Error> {
        let mut after = After::Keep;
        loop {
            let rest = self.rest();
            let tag = rest.match_indices('{').find_map(|(at, _)| match rest.as_bytes().get(at + 1) {
                Some(&kind @ (b'{' | b'%' | b'#')) => Some((at, kind)),
                _ => None,
            });
            let Some((at, kind)) = tag else {
                self.text(rest, after, false, false);
                return Ok(());
            };
            let (text, opened) = rest.split_at_checked(at).unwrap_or((rest, ""));
            let modifier = opened.as_bytes().get(2).copied();
            let first_on_line = kind != b'{' && modifier != Some(b'+');
            self.text(text, after, modifier == Some(b'-'), first_on_line);
            self.advance(2);
            after = match kind {
                b'#' => self.comment()?,
                _ => {
                    self.advance(usize::from(matches!(modifier, Some(b'-' | b'+'))));
                    self.push(if kind == b'{' { Token::OutputStart } else { Token::BlockStart });
                    let after = self.tag(kind)?;
                    if kind == b'%' && self.raw_begins() { self.raw(after)? } else { after }
                }
            };
        }
    }

    /// Adds a text and passes it.
    fn text(&mut self, text: &str, after: After, drop_space: bool, first_on_line: bool) {
        let whole = text;
        let text = match after {
            After::Keep => text,
            After::DropBreak => text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text),
            After::DropSpace => text.trim_start(),
        };
        let text = if drop_space {
            text.trim_end()
        } else if first_on_line {
            let kept = text.trim_end_matches([' ', '\t']);
            let starts_line =
                if kept.is_empty() { self.at == 0 || whole.len() > text.len() } else { kept.ends_with('\n') };
            if starts_line { kept } else { text }
        } else {
            text
        };
        if !text.is_empty() {
            self.push(Token::Text(text.to_string()));
        }
        self.advance(whole.len());
    }

    fn comment(&mut self) -> Result<After, Error> {
        let Some(end) = self.rest().find("#}") else { return self.wrong("a comment without end") };
        let before = self.rest().get(..end).and_then(|c| c.bytes().next_back());
        self.advance(end + 2);
        Ok(after(before, b'#'))
    }

    /// The tokens of a tag up to its end.
    fn tag(&mut self, kind: u8) -> Result<After, Error> {
        let end = if kind == b'{' { "}}" } else { "%}" };
        let mut open: usize = 0;
        loop {
            let spaces = self.rest().len() - self.rest().trim_start().len();
            self.advance(spaces);
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return self.wrong("a tag without end") };
            if open == 0 {
                let modifier = rest.bytes().next().filter(|b| matches!(b, b'-' | b'+'));
                let unmodified = modifier.map_or(rest, |_| rest.get(1..).unwrap_or(""));
                if unmodified.starts_with(end) {
                    self.push(Token::End);
                    self.advance(rest.len() - unmodified.len() + 2);
                    return Ok(after(modifier, kind));
                }
            }
            match first {
                '"' | '\'' => self.string(first)?,
                '0'..='9' => self.number()?,
                c if c.is_alphabetic() || c == '_' => {
                    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                    self.push(Token::Name(rest.get(..length).unwrap_or("").to_string()));
                    self.advance(length);
                }
                '}' => {
                    self.push(Token::Sign(CLOSING_BRACE));
                    self.advance(1);
                    open = open.saturating_sub(1);
                }
                _ => {
                    let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) else {
                        return self.wrong(format!("unexpected character {first:?}"));
                    };
                    match sign {
                        "(" | "[" | "{" => open += 1,
                        ")" | "]" => open = open.saturating_sub(1),
                        _ => {}
                    }
                    self.push(Token::Sign(sign));
                    self.advance(sign.len());
                }
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<(), Error> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.push(Token::Str(text));
                self.advance(at + 1);
                return Ok(());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let mut code = |digits: usize| {
                let hex: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32)
            };
            let escaped = match self.rest().get(at + 1..).and_then(|rest| rest.chars().next()) {
                Some('x') => {
                    code(1);
                    code(2)
                }
                Some('u') => {
                    code(1);
                    code(4)
                }
                Some(other) => {
                    code(1);
                    match other {
                        'n' => Some('\n'),
                        't' => Some('\t'),
                        'r' => Some('\r'),
                        '0' => Some('\0'),
                        'b' => Some('\u{8}'),
                        'f' => Some('\u{c}'),
                        '\\' | '\'' | '"' => Some(other),
                        '\n' => continue,
                        other => {
                            text.push('\\');
                            Some(other)
                        }
                    }
                }
                None => None,
            };
            match escaped {
                Some(c) => text.push(c),
                None => return self.wrong("a string with a wrong escape"),
            }
        }
        self.wrong("a string without end")
    }

    fn number(&mut self) -> Result<(), Error> {
        let rest = self.rest();
        let digits = |from: usize| {
            let tail = rest.get(from..).unwrap_or("");
            from + tail.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(tail.len())
        };
        let whole = digits(0);
        let mut end = whole;
        let follows = |at: usize, wanted: &str| rest.get(at..).is_some_and(|r| r.starts_with(wanted));
        let digit_at = |at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        if follows(end, ".") && digit_at(end + 1) {
            end = digits(end + 1);
        }
        if follows(end, "e") || follows(end, "E") {
            let sign = usize::from(follows(end + 1, "-") || follows(end + 1, "+"));
            if digit_at(end + 1 + sign) {
                end = digits(end + 1 + sign);
            }
        }
        let text = rest.get(..end).unwrap_or("").replace('_', "");
        let token = if end == whole {
            text.parse().map(Token::Int).ok()
        } else {
            text.parse().map(Token::Float).ok()
        };
        match token {
            Some(token) => {
                self.push(token);
                self.advance(end);
                Ok(())
            }
            None => self.wrong("an integer of more than 64 bits"),
        }
    }

    /// Whether the tag just read is `{% raw %}`.
    fn raw_begins(&self) -> bool {
        let tokens: Vec<&Token> = self.tokens.iter().rev().take(3).map(|(token, _)| token).collect();
        matches!(tokens.as_slice(), [Token::End, Token::Name(name), Token::BlockStart] if name == "raw")
    }

    /// Takes the text up to `{% endraw %}` as it is, in place of the tag just read.
    fn raw(&mut self, after_open: After) -> Result<After, Error> {
        self.tokens.truncate(self.tokens.len().saturating_sub(3));
        let rest = self.rest();
        let end = rest.match_indices("{%").find_map(|(at, _)| {
            let tag = rest.get(at + 2..)?;
            let inner = tag.trim_start_matches(['-', '+']).trim_start().strip_prefix("endraw")?.trim_start();
            let close = inner.trim_start_matches(['-', '+']);
            let length = rest.len() - close.strip_prefix("%}")?.len();
            Some((at, length, tag.starts_with('-'), inner.bytes().next()))
        });
        let Some((at, length, drop_space, modifier)) = end else { return self.wrong("raw without endraw") };
        self.text(rest.get(..at).unwrap_or(""), after_open, drop_space, false);
        self.advance(length - at);
        Ok(after(modifier, b'%'))
    }
}

/// What a tag of a kind asks of the text behind it, given the byte before its end.
fn after(modifier: Option<u8>, kind: u8) -> After {
    match modifier {
        Some(b'-') => After::DropSpace,
        Some(b'+') => After::Keep,
        _ if kind == b'{' => After::Keep,
        _ => After::DropBreak,
    }
}
