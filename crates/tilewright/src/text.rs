//! The lexer, the parser's cursor and the error that every text form shares.
//!
//! A text is lexed whole when its [`Parser`] is made; parsing then walks a list of tokens that ends in one
//! [`Token::End`]. Each token knows its [`Span`], and an [`Error`] carries the source line it points into, so
//! it can be shown without the text.
//!
//! Invariants: spans lie on character boundaries of the text; the cursor never moves past the end token;
//! nesting is bounded by [`MAX_NESTING`], so recursive parsers cannot exhaust the stack.

use std::fmt;

/// How deep [`Parser::nested`] may recurse.
pub const MAX_NESTING: usize = 64;

/// Widest piece of a source line that an error shows, in characters.
const SHOWN_COLUMNS: usize = 110;

/// A range of bytes of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// What is wrong in a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file's name as given to the parser.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The whole source line.
    pub source_line: String,
    /// The number of characters pointed at, at least 1.
    pub width: usize,
    /// What is wrong.
    pub message: String,
}

impl Error {
    /// The error at `span` of `text`; a span of several lines is cut at the end of its first.
    pub fn at(file: &str, text: &str, span: Span, message: impl Into<String>) -> Error {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        Error {
            file: file.to_string(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            source_line: text[line_start..line_end].trim_end_matches('\r').to_string(),
            width: text[start..end.min(line_end)].chars().count().max(1),
            message: message.into(),
        }
    }

    /// The shown piece of the source line, and the caret's offset and width in it.
    fn excerpt(&self) -> (String, usize, usize) {
        let chars: Vec<char> =
            self.source_line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let at = self.column.saturating_sub(1);
        if chars.len() <= SHOWN_COLUMNS {
            return (chars.into_iter().collect(), at, self.width);
        }
        let from = at.saturating_sub(SHOWN_COLUMNS / 2).min(chars.len() - SHOWN_COLUMNS);
        let to = from + SHOWN_COLUMNS;
        let mut shown: String = chars[from..to].iter().collect();
        let mut offset = at - from;
        if from > 0 {
            shown.insert_str(0, "...");
            offset += 3;
        }
        if to < chars.len() {
            shown.push_str("...");
        }
        (shown, offset, self.width.min(to.saturating_sub(at)).max(1))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let (shown, offset, width) = self.excerpt();
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{}", format!("{number} | {shown}").trim_end())?;
        write!(f, "{gutter} | {}{}", " ".repeat(offset), "^".repeat(width.max(1)))
    }
}

impl std::error::Error for Error {}

/// The last character boundary of `text` at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A letter or `_`, then letters, digits and `_`; keywords are identifiers.
    Ident(&'a str),
    /// A decimal integer without sign.
    Int(i64),
    /// 2^63, the one integer that only its negative is.
    Least,
    /// A decimal number with a fraction or an exponent, without sign.
    Float(f64),
    /// What stands between double quotes; there are no escapes.
    Str(&'a str),
    /// Punctuation, the longest that matches.
    Punct(&'static str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Ident(s) => write!(f, "`{s}`"),
            Token::Int(v) => write!(f, "`{v}`"),
            Token::Least => write!(f, "`{LEAST}`"),
            Token::Float(v) => write!(f, "`{}`", format_float(*v)),
            Token::Str(s) => write!(f, "`\"{s}\"`"),
            Token::Punct(s) => write!(f, "`{s}`"),
            Token::End => write!(f, "the end of the text"),
        }
    }
}

/// The digits of [`Token::Least`].
const LEAST: &str = "9223372036854775808";

/// All punctuation; a longer one stands before its prefixes.
const PUNCTUATION: [&str; 32] = [
    "->", "..=", "..", "<=", ">=", "==", "!=", "+:", "(", ")", "[", "]", "{", "}", ",", ":", ";", "=", "<",
    ">", "+", "-", "*", "/", "%", ".", "@", "|", "&", "!", "~", "?",
];

/// The text that the lexer reads back to the same value: shortest, and never an integer's.
///
/// `inf`, `-inf` and `nan` are the three that are not literals; [`Parser::number`] reads them too.
pub fn format_float(value: f64) -> String {
    if value.is_nan() { "nan".to_string() } else { format!("{value:?}") }
}

/// The number of bytes at the start of `s` that satisfy `f`.
fn run(s: &str, f: impl Fn(u8) -> bool) -> usize {
    s.bytes().position(|b| !f(b)).unwrap_or(s.len())
}

/// The length of the number at the start of `s`, which starts with a digit, and whether it is a float.
fn number_length(s: &str) -> (usize, bool) {
    let digits = |at: usize| run(&s[at..], |b| b.is_ascii_digit());
    let bytes = s.as_bytes();
    let mut length = digits(0);
    let mut float = false;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        if fraction > 0 {
            length += 1 + fraction;
            float = true;
        }
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            float = true;
        }
    }
    (length, float)
}

/// The token at the start of `s`, which is not empty, and its length; or a message and the length it is about.
fn token(s: &str) -> Result<(Token<'_>, usize), (String, usize)> {
    let first = s.as_bytes()[0];
    if first.is_ascii_alphabetic() || first == b'_' {
        let length = run(s, |b| b.is_ascii_alphanumeric() || b == b'_');
        return Ok((Token::Ident(&s[..length]), length));
    }
    if first.is_ascii_digit() {
        let (length, float) = number_length(s);
        let out_of_range = || (format!("`{}` is out of range", &s[..length]), length);
        if !float {
            if &s[..length] == LEAST {
                return Ok((Token::Least, length));
            }
            let value = s[..length].parse().map_err(|_| out_of_range())?;
            return Ok((Token::Int(value), length));
        }
        let value: f64 = s[..length].parse().map_err(|_| out_of_range())?;
        return if value.is_finite() { Ok((Token::Float(value), length)) } else { Err(out_of_range()) };
    }
    if first == b'"' {
        let length = 1 + run(&s[1..], |b| b != b'"' && b != b'\n');
        if s.as_bytes().get(length) != Some(&b'"') {
            return Err(("this string is not closed".to_string(), length));
        }
        return Ok((Token::Str(&s[1..length]), length + 1));
    }
    if let Some(p) = PUNCTUATION.iter().find(|p| s.starts_with(**p)) {
        return Ok((Token::Punct(p), p.len()));
    }
    let c = s.chars().next().unwrap_or('?');
    Err((format!("unknown character `{}`", c.escape_debug()), c.len_utf8()))
}

/// A token, where it is, and whether a line ends between it and the token before.
#[derive(Clone, Copy, Debug)]
struct Lexed<'a> {
    token: Token<'a>,
    span: Span,
    new_line: bool,
}

/// A cursor over the tokens of one text.
#[derive(Clone, Debug)]
pub struct Parser<'a> {
    file: String,
    text: &'a str,
    tokens: Vec<Lexed<'a>>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Lexes the whole of `text`; `file` is the name that errors show.
    pub fn new(file: &str, text: &'a str) -> Result<Self, Error> {
        let mut tokens = Vec::new();
        let (mut at, mut last, mut new_line) = (0, 0, true);
        while at < text.len() {
            let rest = &text[at..];
            match rest.as_bytes()[0] {
                b'\n' => {
                    new_line = true;
                    at += 1;
                }
                b' ' | b'\t' | b'\r' => at += 1,
                b'#' => at += run(rest, |b| b != b'\n'),
                _ => {
                    let (token, length) = token(rest).map_err(|(message, length)| {
                        Error::at(file, text, Span { start: at, end: at + length }, message)
                    })?;
                    let span = Span { start: at, end: at + length };
                    tokens.push(Lexed { token, span, new_line });
                    new_line = false;
                    at = span.end;
                    last = at;
                }
            }
        }
        tokens.push(Lexed { token: Token::End, span: Span { start: last, end: last }, new_line: true });
        Ok(Parser { file: file.to_string(), text, tokens, at: 0, depth: 0 })
    }

    /// The text between the two ends of `span`.
    pub fn slice(&self, span: Span) -> &'a str {
        let start = floor_boundary(self.text, span.start);
        &self.text[start..floor_boundary(self.text, span.end).max(start)]
    }

    fn lexed(&self, n: usize) -> Lexed<'a> {
        self.tokens[self.at.saturating_add(n).min(self.tokens.len() - 1)]
    }

    /// The next token, which stays.
    pub fn peek(&self) -> Token<'a> {
        self.lexed(0).token
    }

    /// The token `n` after the next.
    pub fn peek_at(&self, n: usize) -> Token<'a> {
        self.lexed(n).token
    }

    /// Takes the next token; at the end, the end again.
    #[expect(clippy::should_implement_trait, reason = "a cursor that never runs out is no iterator")]
    pub fn next(&mut self) -> (Token<'a>, Span) {
        let Lexed { token, span, .. } = self.lexed(0);
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        (token, span)
    }

    /// The next token's span.
    pub fn span(&self) -> Span {
        self.lexed(0).span
    }

    /// The span of the token taken last; empty at the start of the text before any.
    pub fn previous_span(&self) -> Span {
        self.at.checked_sub(1).map_or(Span::default(), |i| self.tokens[i].span)
    }

    /// Whether the next token starts on a later line than the one before; true at both ends of the text.
    pub fn on_new_line(&self) -> bool {
        self.lexed(0).new_line
    }

    /// The error that the next token, a number, is beyond 64 bits.
    pub fn out_of_range(&self) -> Error {
        self.error(self.span(), format!("{} is out of range", self.peek()))
    }

    /// Whether nothing is left.
    pub fn is_end(&self) -> bool {
        self.peek() == Token::End
    }

    /// Whether the next token is this punctuation or this word.
    pub fn at(&self, what: &str) -> bool {
        self.is_at(0, what)
    }

    /// Whether the token `n` after the next is this punctuation or this word.
    pub fn is_at(&self, n: usize, what: &str) -> bool {
        matches!(self.peek_at(n), Token::Ident(s) | Token::Punct(s) if s == what)
    }

    /// Takes the next token if it is this punctuation or this word.
    pub fn eat(&mut self, what: &str) -> bool {
        let found = self.at(what);
        if found {
            self.next();
        }
        found
    }

    /// Takes this punctuation or word, or fails.
    pub fn expect(&mut self, what: &str) -> Result<Span, Error> {
        if self.at(what) { Ok(self.next().1) } else { Err(self.expected(&format!("`{what}`"))) }
    }

    /// Takes an identifier; `what` says what it names ("a value").
    pub fn ident(&mut self, what: &str) -> Result<(&'a str, Span), Error> {
        match self.peek() {
            Token::Ident(s) => Ok((s, self.next().1)),
            _ => Err(self.expected(what)),
        }
    }

    /// Takes an integer with an optional `-`.
    pub fn integer(&mut self, what: &str) -> Result<(i64, Span), Error> {
        let minus = usize::from(self.at("-"));
        let value = match self.peek_at(minus) {
            Token::Int(value) if minus == 1 => -value,
            Token::Int(value) => value,
            Token::Least if minus == 1 => i64::MIN,
            Token::Least => return Err(self.out_of_range()),
            _ => return Err(self.expected(what)),
        };
        Ok((value, self.take_signed(minus)))
    }

    /// Takes a number: an integer, a float, `inf` or `nan`, with an optional `-`.
    pub fn number(&mut self, what: &str) -> Result<(f64, Span), Error> {
        let minus = usize::from(self.at("-"));
        let value = match self.peek_at(minus) {
            Token::Int(value) => value as f64,
            Token::Least => -(i64::MIN as f64),
            Token::Float(value) => value,
            Token::Ident("inf") => f64::INFINITY,
            Token::Ident("nan") => f64::NAN,
            _ => return Err(self.expected(what)),
        };
        let span = self.take_signed(minus);
        Ok((if minus == 1 { -value } else { value }, span))
    }

    /// Takes `minus` + 1 tokens and gives their span.
    fn take_signed(&mut self, minus: usize) -> Span {
        let first = self.next().1;
        if minus == 1 { first.to(self.next().1) } else { first }
    }

    /// Takes a string.
    pub fn string(&mut self, what: &str) -> Result<(&'a str, Span), Error> {
        match self.peek() {
            Token::Str(s) => Ok((s, self.next().1)),
            _ => Err(self.expected(what)),
        }
    }

    /// The error at `span`.
    pub fn error(&self, span: Span, message: impl Into<String>) -> Error {
        Error::at(&self.file, self.text, span, message)
    }

    /// The error "expected `what`, found" the next token.
    pub fn expected(&self, what: &str) -> Error {
        self.error(self.span(), format!("expected {what}, found {}", self.peek()))
    }

    /// Runs `f` one level deeper, or fails beyond [`MAX_NESTING`] levels.
    pub fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= MAX_NESTING {
            return Err(self.error(self.span(), format!("nested more than {MAX_NESTING} deep")));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// A list between `open` and `close`, separated by commas; one may trail.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut f: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(f(self)?);
            if !self.eat(",") {
                if !self.eat(close) {
                    return Err(self.expected(&format!("`,` or `{close}`")));
                }
                break;
            }
        }
        Ok(items)
    }

    /// Where the cursor is, for [`Parser::rewind`].
    pub fn position(&self) -> usize {
        self.at
    }

    /// Puts the cursor back to where [`Parser::position`] said.
    pub fn rewind(&mut self, position: usize) {
        self.at = position.min(self.tokens.len() - 1);
    }
}
